#include "common/data/dataset.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <span>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/base/units.hpp"
#include "common/data/text_hash.hpp"

namespace ultra::data {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 22;  // bytes; a signal is answered in between

// Of data/workbook.txt: tools/make_text.py says how it was made.
constexpr std::size_t kWorkbookBytes = 999'938;
constexpr std::uint64_t kWorkbookHash = 0x7a6af43e3a87a024U;

std::uint64_t machine_memory() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

FileError too_large(const fs::path& path, std::uint64_t size) {
  return FileError(fmt::format(
      "data file '{}' is too large: each process holds the whole text, {}, and this machine has {} "
      "of memory. Give --data a part of it.",
      path.string(), format_bytes(size), format_bytes(machine_memory())));
}

/// Reads what the file has now; its size may be another than it says, or change.
std::vector<std::uint8_t> read_all(std::ifstream& file, std::uint64_t size) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(size);
  std::vector<char> piece(std::min<std::uint64_t>(kPiece, size + 1));
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0) {
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + file.gcount());
    throw_if_interrupted();
  }
  return bytes;
}

std::vector<std::uint8_t> read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw FileError(fmt::format("data file '{}' cannot be read: {}. Check its permissions.",
                                path.string(), std::strerror(errno)));
  }
  std::error_code unknown_size;
  const std::uintmax_t known_size = fs::file_size(path, unknown_size);
  const std::uint64_t size = unknown_size ? 0 : known_size;
  if (size > machine_memory()) throw too_large(path, size);
  std::vector<std::uint8_t> bytes;
  try {
    bytes = read_all(file, size);
  } catch (const std::bad_alloc&) {
    throw too_large(path, size);
  }
  if (file.bad()) {
    throw FileError(
        fmt::format("data file '{}' cannot be read: {}. Give --data the path of a text.",
                    path.string(), std::strerror(errno)));
  }
  return bytes;
}

std::uint64_t hash_of(std::span<const std::uint8_t> bytes) {
  TextHash hash;
  while (!bytes.empty()) {
    const std::size_t size = std::min(kPiece, bytes.size());
    hash.add(bytes.first(size));
    bytes = bytes.subspan(size);
    throw_if_interrupted();
  }
  return hash.value();
}

}  // namespace

Dataset::Dataset(std::vector<std::uint8_t> bytes, std::string source)
    : bytes_(std::make_shared<const std::vector<std::uint8_t>>(std::move(bytes))),
      source_(std::move(source)),
      hash_(hash_of(*bytes_)) {}

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
  const fs::path path = root / "data" / "workbook.txt";
  const std::string advice =
      "Restore it with git checkout -- data/workbook.txt, or give --data the path of a text.";
  std::error_code error;
  if (fs::status(path, error).type() == fs::file_type::not_found) {
    throw FileError(
        fmt::format("the workbook's own text '{}' does not exist. {}", path.string(), advice));
  }
  const Dataset text(read_bytes(path), "the workbook's own text");
  if (text.size() == kWorkbookBytes && text.hash() == kWorkbookHash) return text;
  throw FileError(fmt::format(
      "the workbook's own text '{}' has been changed: it has {} bytes and the hash {:016x}, "
      "expected are {} bytes and the hash {:016x}. {}",
      path.string(), format_count(text.size()), text.hash(), format_count(kWorkbookBytes),
      kWorkbookHash, advice));
}

Sampler::Sampler(Dataset dataset, std::size_t seq_len, std::size_t global_batch_size,
                 std::uint64_t seed)
    : dataset_(std::move(dataset)),
      seq_len_(seq_len),
      sequences_per_step_(global_batch_size),
      samples_{0, global_batch_size},
      stream_(seed, "data order") {
  if (dataset_.size() < seq_len + 1) {
    throw FileError(
        fmt::format("{} has {} tokens, but one sequence takes --seq + 1 = {}. Give a "
                    "longer text or a smaller --seq.",
                    dataset_.source(), dataset_.size(), seq_len + 1));
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
  for (std::size_t sample = samples.begin; sample < samples.end; ++sample) {
    const std::size_t start = stream_.below(number_of(step, sample), starts);
    for (std::size_t i = 0; i < seq_len_; ++i) {
      *tokens++ = dataset_[start + i];
      *targets++ = dataset_[start + i + 1];
    }
  }
  return batch;
}

}  // namespace ultra::data
