#pragma once
/// @file
/// RunFiles: what a run writes. Rank 0 alone writes, for all ranks.

#include <optional>
#include <span>
#include <string>

#include "common/base/atomic_file.hpp"
#include "common/train/options/options.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::train {

/// @brief The metrics file and the trace file, open from before the first step; on other ranks than
/// 0 no file.
class RunFiles {
 public:
  /// @brief Opens the files that the options name.
  /// @throws FileError when one cannot be made.
  RunFiles(const TrainOptions& options, int rank);

  /// @brief Writes the files and moves them to their places.
  /// @param timelines  TraceRecorder::events() of each rank; for the trace file, if there is one.
  /// @throws FileError when the disk is full.
  void finish(const TrainOptions& options, const ExtraConfig& extra, const TrainResult& result,
              std::span<const std::string> timelines);

 private:
  MetricsFile metrics_;
  std::optional<AtomicFile> trace_;
};

}  // namespace ultra::train
