#pragma once
/// @file
/// SharedDataset: each text once for all ranks of a process.

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "common/data/dataset.hpp"

namespace ultra::data {

/// @brief The texts of a run, which the ranks of a process read once and share.
class SharedDataset {
 public:
  /// @brief The text of a file, or the workbook's own. The first rank that calls it reads it; the
  /// others wait, and get the same tokens. After an error the next one tries again.
  /// @throws what reading it throws, and FileError when a token is not below the vocabulary's size:
  /// see Dataset.
  [[nodiscard]] Dataset open(const DataFile& file);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Dataset> texts_;  // by path and mask
};

}  // namespace ultra::data
