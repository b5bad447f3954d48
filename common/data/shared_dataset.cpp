#include "common/data/shared_dataset.hpp"

#include "build_config.hpp"

namespace ultra::data {
namespace {

Dataset opened(const DataFile& file) {
  if (file.path.empty()) return Dataset::workbook(build::kSourceDir);
  if (file.format == TokenFormat::kBytes) return Dataset::from_file(file.path);
  return Dataset::from_tokens(file.path, file.format);
}

}  // namespace

Dataset SharedDataset::open(const DataFile& file) {
  const std::lock_guard lock(mutex_);
  const auto found = texts_.find(file.path);
  if (found != texts_.end()) return found->second;
  return texts_.emplace(file.path, opened(file).with_vocabulary(file.vocab_size)).first->second;
}

}  // namespace ultra::data
