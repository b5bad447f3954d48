#include "common/data/shared_dataset.hpp"

#include "build_config.hpp"
#include "common/base/errors.hpp"

namespace ultra::data {

Dataset SharedDataset::open(const std::string& path) {
  const std::lock_guard lock(mutex_);
  ensure(!dataset_ || path == path_, "the ranks of a process share one text");
  if (!dataset_) {
    dataset_ = path.empty() ? Dataset::workbook(build::kSourceDir) : Dataset::from_file(path);
    path_ = path;
  }
  return *dataset_;
}

}  // namespace ultra::data
