#include "common/data/dataset.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <span>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/base/units.hpp"
#include "common/data/text_hash.hpp"
#include "common/data/token_file.hpp"
#include "common/ops/cross_entropy.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::data {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 22;  // bytes; a signal is answered in between

// What stands for a long file of token ids, and is checked before the training.
constexpr std::size_t kHashedPiece = std::size_t{1} << 20;  // bytes
constexpr std::size_t kHashedPieces = 64;

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

/// Bytes in memory.
class ByteText : public TokenSource {
 public:
  explicit ByteText(std::vector<std::uint8_t> bytes) : bytes_(std::move(bytes)) {}

  std::size_t size() const override { return bytes_.size(); }
  void read(std::size_t first, std::span<std::uint32_t> tokens) const override {
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(first), tokens.size(), tokens.begin());
  }
  std::size_t byte_of(std::size_t index) const override { return index; }

 private:
  std::vector<std::uint8_t> bytes_;
};

std::size_t bytes_per_token(TokenFormat format) {
  switch (format) {
    case TokenFormat::kBytes:
      return 1;
    case TokenFormat::kU16:
      return 2;
    case TokenFormat::kU32:
      break;
  }
  return 4;
}

std::size_t highest_token(TokenFormat format) {
  if (format == TokenFormat::kU32) return std::numeric_limits<std::int32_t>::max();
  return (std::size_t{1} << (8 * bytes_per_token(format))) - 1;
}

/// The parts of a text that stand for it: all of it, unless it is a long file of token ids.
std::vector<Range> hashed_parts(std::size_t size, TokenFormat format) {
  const std::size_t piece = kHashedPiece / bytes_per_token(format);
  std::vector<Range> parts;
  if (format == TokenFormat::kBytes || size <= kHashedPieces * piece) {
    for (std::size_t begin = 0; begin < size; begin += piece) {
      parts.push_back({begin, std::min(begin + piece, size)});
    }
    return parts;
  }
  const std::size_t last = size - piece;
  for (std::size_t i = 0; i < kHashedPieces; ++i) {
    const std::size_t begin = last / (kHashedPieces - 1) * i;
    parts.push_back({begin, begin + piece});
  }
  parts.back() = {last, size};
  return parts;
}

std::uint64_t hash_of(const TokenSource& tokens, TokenFormat format) {
  TextHash hash;
  std::vector<std::uint32_t> piece;
  for (const Range& part : hashed_parts(tokens.size(), format)) {
    piece.resize(part.size());
    tokens.read(part.begin, piece);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(piece.data());
    hash.add({bytes, piece.size() * sizeof(std::uint32_t)});
    throw_if_interrupted();
  }
  return hash.value();
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
    : source_(std::move(source)), vocab_size_(kByteVocabulary), hash_(hash_of(bytes)) {
  tokens_ = std::make_shared<ByteText>(std::move(bytes));
}

Dataset::Dataset(std::shared_ptr<const TokenSource> tokens, TokenFormat format, std::string source)
    : tokens_(std::move(tokens)),
      format_(format),
      source_(std::move(source)),
      vocab_size_(highest_token(format) + 1),
      hash_(hash_of(*tokens_, format)) {}

Dataset Dataset::from_file(const fs::path& path) {
  expect_data_file(path);
  std::vector<std::uint8_t> bytes = read_bytes(path);
  if (bytes.empty()) {
    throw FileError(fmt::format("data file '{}' is empty. Give --data a text of some kilobytes.",
                                path.string()));
  }
  return Dataset(std::move(bytes), path.string());
}

Dataset Dataset::from_tokens(const fs::path& path, TokenFormat format) {
  return Dataset(open_token_file(path, format), format, path.string());
}

Dataset Dataset::with_vocabulary(std::size_t vocab_size) const {
  Dataset checked = *this;
  checked.vocab_size_ = std::min(vocab_size, highest_token(format_) + 1);
  if (format_ != TokenFormat::kU32 && vocab_size > highest_token(format_)) return checked;
  std::vector<std::int32_t> piece;
  for (const Range& part : hashed_parts(size(), format_)) {
    piece.resize(part.size());
    checked.read(part.begin, piece);
    throw_if_interrupted();
  }
  return checked;
}

Dataset Dataset::with_mask(const fs::path& path) const {
  Dataset masked = *this;
  masked.mask_ = std::make_shared<TokenMask>(path, size(), source_);
  masked.source_ = fmt::format("{} with the mask {}", source_, path.string());
  masked.hash_ ^= masked.mask_->hash();
  return masked;
}

std::string Dataset::described_size() const {
  if (format_ == TokenFormat::kBytes) return format_bytes(size()) + " of text";
  return format_count(size()) + " tokens";
}

void Dataset::read(std::size_t first, std::span<std::int32_t> tokens) const {
  ensure(first <= size() && tokens.size() <= size() - first, "tokens inside the text");
  // The same bits: ids above the highest i32 are refused.
  const std::span<std::uint32_t> ids(reinterpret_cast<std::uint32_t*>(tokens.data()),
                                     tokens.size());
  tokens_->read(first, ids);
  const auto outside =
      std::ranges::find_if(ids, [this](std::uint32_t id) { return id >= vocab_size_; });
  if (outside == ids.end()) return;
  const std::size_t index = first + static_cast<std::size_t>(outside - ids.begin());
  throw FileError(fmt::format(
      "{} has token {} at index {} (byte {} of the file), and the model's vocabulary is [0, {}). "
      "Train a model with a larger vocabulary (--vocab, or another --init), or make the file with "
      "the model's own tokenizer.",
      source_, *outside, format_count(index), format_count(tokens_->byte_of(index)), vocab_size_));
}

std::int32_t Dataset::operator[](std::size_t index) const {
  std::int32_t token = 0;
  read(index, std::span(&token, 1));
  return token;
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

Batch Batch::on(const Device& device) const {
  if (!tokens.defined() || !has_streams(device.kind())) return *this;
  return {.tokens = tokens.to(device), .targets = targets.to(device)};
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
  const HostView<std::int32_t> token_view(batch.tokens, HostAccess::kWrite);
  const HostView<std::int32_t> target_view(batch.targets, HostAccess::kWrite);
  std::int32_t* tokens = token_view.data();
  std::int32_t* targets = target_view.data();
  std::vector<std::int32_t> sequence(seq_len_ + 1);
  for (std::size_t sample = samples.begin; sample < samples.end; ++sample) {
    const std::size_t begin = begin_of(number_of(step, sample));
    dataset_.read(begin, sequence);
    tokens = std::copy(sequence.begin(), sequence.end() - 1, tokens);
    for (std::size_t i = 1; i <= seq_len_; ++i) {
      const bool has_loss = dataset_.mask() == nullptr || dataset_.mask()->has_loss(begin + i);
      *targets++ = has_loss ? sequence[i] : ops::kNoTarget;
    }
  }
  return batch;
}

double Sampler::part_with_loss(std::size_t step) const {
  if (dataset_.mask() == nullptr) return 1.0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < sequences_per_step_; ++i) {
    const std::size_t begin = begin_of(step * sequences_per_step_ + i);
    count += dataset_.mask()->count({begin + 1, begin + 1 + seq_len_});
  }
  return static_cast<double>(std::max<std::size_t>(count, 1)) /
         static_cast<double>(sequences_per_step_ * seq_len_);
}

}  // namespace ultra::data
