#include "common/data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::data {
namespace fs = std::filesystem;
namespace {

std::vector<std::uint8_t> read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw FileError(fmt::format("data file '{}' cannot be read: {}. Check its permissions.",
                                path.string(), std::strerror(errno)));
  }
  std::vector<std::uint8_t> bytes;
  std::error_code size_error;
  const std::uintmax_t size = fs::file_size(path, size_error);
  if (!size_error) bytes.reserve(size);
  std::array<char, 65536> chunk;
  while (file.read(chunk.data(), chunk.size()), file.gcount() > 0) {
    bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + file.gcount());
  }
  if (file.bad()) {
    throw FileError(
        fmt::format("data file '{}' cannot be read: {}. Give --data the path of a text.",
                    path.string(), std::strerror(errno)));
  }
  return bytes;
}

/// Folders of the workbook that hold text and code, and the endings that count as text.
constexpr std::array<std::string_view, 7> kTextFolders = {
    "chapters", "common", "exercises", "kernels", "solutions", "tests", "tools"};
constexpr std::array<std::string_view, 6> kTextEndings = {".md",  ".hpp", ".cpp",
                                                          ".cuh", ".cu",  ".py"};

bool is_text(const fs::directory_entry& entry) {
  const std::string ending = entry.path().extension().string();
  return entry.is_regular_file() &&
         std::find(kTextEndings.begin(), kTextEndings.end(), ending) != kTextEndings.end();
}

}  // namespace

Dataset::Dataset(std::vector<std::uint8_t> bytes, std::string source)
    : bytes_(std::move(bytes)), source_(std::move(source)) {}

std::uint64_t Dataset::hash() const {
  return stable_hash({reinterpret_cast<const char*>(bytes_.data()), bytes_.size()});
}

Dataset Dataset::from_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    throw FileError(fmt::format("data file '{}' does not exist. Give --data the path of a text.",
                                path.string()));
  }
  if (fs::is_directory(status)) {
    throw FileError(
        fmt::format("data file '{}' is a folder. Give --data the path of a text.", path.string()));
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw FileError(fmt::format(
        "data file '{}' is a device or a pipe, not a regular file. Give --data the path of a text.",
        path.string()));
  }
  std::vector<std::uint8_t> bytes = read_bytes(path);
  if (bytes.empty()) {
    throw FileError(fmt::format("data file '{}' is empty. Give --data a text of some kilobytes.",
                                path.string()));
  }
  return Dataset(std::move(bytes), path.string());
}

Dataset Dataset::workbook(const fs::path& root) {
  std::vector<fs::path> paths;
  for (const std::string_view folder : kTextFolders) {
    std::error_code error;
    for (fs::recursive_directory_iterator it(root / folder, error), end; !error && it != end;
         it.increment(error)) {
      if (is_text(*it)) paths.push_back(it->path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::uint8_t> text;
  for (const fs::path& path : paths) {
    const std::vector<std::uint8_t> bytes = read_bytes(path);
    text.insert(text.end(), bytes.begin(), bytes.end());
  }
  if (text.empty()) {
    throw FileError(
        fmt::format("the workbook's own text was not found in '{}'. Give --data the "
                    "path of a text.",
                    root.string()));
  }
  return Dataset(std::move(text), "the workbook's own text");
}

Sampler::Sampler(const Dataset& dataset, std::size_t seq_len, std::size_t global_batch_size,
                 std::uint64_t seed)
    : dataset_(dataset),
      seq_len_(seq_len),
      sequences_per_step_(global_batch_size),
      samples_{0, global_batch_size},
      stream_(seed, "data order") {
  if (dataset.size() < seq_len + 1) {
    throw FileError(
        fmt::format("{} has {} tokens, but one sequence takes --seq + 1 = {}. Give a "
                    "longer text or a smaller --seq.",
                    dataset.source(), dataset.size(), seq_len + 1));
  }
}

Sampler Sampler::share(Range samples) const {
  ensure(samples.begin <= samples.end && samples.end <= samples_.size(),
         "a share outside of the global batch");
  Sampler result = *this;
  result.samples_ = {samples_.begin + samples.begin, samples_.begin + samples.end};
  return result;
}

Batch Sampler::batch(const Device& device, std::size_t step, Range samples) const {
  ensure(samples.begin <= samples.end && samples.end <= samples_.size(),
         "samples outside of the global batch");
  const Shape shape{samples.size(), seq_len_};
  const Batch batch{Tensor::empty(device, shape, DType::kI32),
                    Tensor::empty(device, shape, DType::kI32)};
  std::int32_t* tokens = batch.tokens.data<std::int32_t>();
  std::int32_t* targets = batch.targets.data<std::int32_t>();
  const std::size_t starts = dataset_.size() - seq_len_;
  const std::size_t first = step * sequences_per_step_ + samples_.begin;
  for (std::size_t sample = samples.begin; sample < samples.end; ++sample) {
    const std::size_t start = stream_.below(first + sample, starts);
    for (std::size_t i = 0; i < seq_len_; ++i) {
      *tokens++ = dataset_[start + i];
      *targets++ = dataset_[start + i + 1];
    }
  }
  return batch;
}

}  // namespace ultra::data
