#pragma once
/// @file
/// train: the frame of a training run. What a rank does in it is its Worker's.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/atomic_file.hpp"
#include "common/comm/communicator.hpp"
#include "common/data/shared_dataset.hpp"
#include "common/trace/trace_recorder.hpp"
#include "common/train/options/options.hpp"
#include "common/train/report/metrics.hpp"
#include "common/train/run/worker.hpp"

namespace ultra::train {

/// @brief Trains on the ranks of `world`; rank 0 shows progress on stdout and writes metrics and
/// trace for all.
///
/// Collective: every rank calls it, with the same options and with a worker of its own.
/// @param text          opens the text; the ranks of a process can share it.
/// @param make_worker   makes this rank's worker; called once.
/// @param extra_config  the chapter's own flags, for the metrics file.
/// @return the same on every rank, except for the times of the steps, which are the rank's own, and
/// for figures that the workers leave different (see Worker::conclude()). The metrics file has rank
/// 0's.
/// @throws ConfigError for options that do not fit and for ranks whose texts differ, and FileError
/// for files that cannot be read or written, before the first step and the same on every rank (see
/// agree()); what a worker throws; Interrupted when the program was told to stop. No partial file
/// is left behind.
[[nodiscard]] TrainResult train(const TrainOptions& options, data::SharedDataset& text,
                                const MakeWorker& make_worker, const ExtraConfig& extra_config,
                                const Communicator& world);

/// @brief Checks that this process is alone: what trains on one rank has no work for others.
/// @throws ConfigError when mpirun started several processes.
void expect_one_process();

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

/// @brief Records every operation of a rank, and every wait of its thread, while it lives.
///
/// Operations stand in the track "communication", those that run beside others in further ones
/// ("communication 2"), because spans of one track must not overlap. Each is named by its kind, its
/// communicator and its label, and shows its elements and bytes sent. The track "waiting" shows when
/// the rank's own thread waited, and for which operation.
class CommTrace : public CommObserver {
 public:
  /// @brief Starts to record.
  /// @param recorder  outlives this; nullptr records nothing.
  CommTrace(Communicator world, trace::TraceRecorder* recorder);
  CommTrace(const CommTrace&) = delete;
  CommTrace& operator=(const CommTrace&) = delete;
  ~CommTrace() override { stop(); }

  /// @brief Records nothing from now on.
  void stop();

  void operation_ended(const OperationInfo& info, std::size_t sent_bytes, Clock::time_point begin,
                       Clock::time_point end) override;
  void waited(const OperationInfo& info, Clock::time_point begin, Clock::time_point end) override;

 private:
  Communicator world_;
  trace::TraceRecorder* recorder_;
  std::vector<Clock::time_point> track_ends_;  // of each communication track
};

}  // namespace ultra::train
