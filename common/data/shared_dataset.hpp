#pragma once
/// @file
/// SharedDataset: one text for all ranks of a process.

#include <mutex>
#include <optional>
#include <string>

#include "common/data/dataset.hpp"

namespace ultra::data {

/// @brief The text of a run, which the ranks of a process read once and share.
class SharedDataset {
 public:
  /// @brief The text of a file, or the workbook's own. The first rank that calls it reads it; the
  /// others wait, and get the same bytes. After an error the next one tries again.
  /// @param path  the same on each call; empty means the workbook's own text.
  /// @throws what reading it throws: see Dataset.
  [[nodiscard]] Dataset open(const std::string& path);

 private:
  std::mutex mutex_;
  std::string path_;
  std::optional<Dataset> dataset_;
};

}  // namespace ultra::data
