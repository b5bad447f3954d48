#include "common/data/shared_dataset.hpp"

#include "build_config.hpp"

namespace ultra::data {
namespace {

Dataset text_of(const DataFile& file) {
  if (file.path.empty()) return Dataset::workbook(build::kSourceDir);
  if (file.format == TokenFormat::kBytes) return Dataset::from_file(file.path);
  return Dataset::from_tokens(file.path, file.format);
}

Dataset opened(const DataFile& file) {
  const Dataset text = text_of(file).with_vocabulary(file.vocab_size);
  return file.mask.empty() ? text : text.with_mask(file.mask);
}

}  // namespace

Dataset SharedDataset::open(const DataFile& file) {
  const std::lock_guard lock(mutex_);
  const std::pair names(file.path, file.mask);
  const auto found = texts_.find(names);
  if (found != texts_.end()) return found->second;
  return texts_.emplace(names, opened(file)).first->second;
}

}  // namespace ultra::data
