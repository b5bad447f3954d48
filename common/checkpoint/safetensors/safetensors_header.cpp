#include "common/checkpoint/safetensors/safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/units.hpp"
#include "common/checkpoint/files/file_damage.hpp"
#include "common/checkpoint/safetensors/header_json.hpp"

namespace ultra::checkpoint {
namespace {

/// The writer begins the data at a multiple of this, as the reference implementation does.
constexpr std::size_t kAlignment = 8;

/// No file is longer.
constexpr std::size_t kMaxFileBytes = std::numeric_limits<std::int64_t>::max();

/// a * b, unless that is more than a file can have bytes.
std::optional<std::size_t> product(std::size_t a, std::size_t b) {
  if (b != 0 && a > kMaxFileBytes / b) return std::nullopt;
  return a * b;
}

/// Bytes that a tensor takes; nothing when they are more than a file can have.
std::optional<std::size_t> bytes_of(StoredType type, std::span<const std::size_t> shape) {
  std::optional<std::size_t> bytes = size_of(type);
  for (const std::size_t extent : shape) {
    bytes = product(*bytes, extent);
    if (!bytes) break;
  }
  return bytes;
}

std::string described(const StoredTensor& tensor) {
  return fmt::format("tensor {} of {} {}", shown_text(tensor.name), to_string(tensor.type),
                     shown_shape(tensor.shape));
}

std::string offsets_of(const StoredTensor& tensor) {
  return fmt::format("[{}, {}]", tensor.bytes.begin, tensor.bytes.end);
}

/// Indices of the tensors, by name.
std::vector<std::size_t> sorted_by_name(std::span<const StoredTensor> tensors) {
  std::vector<std::size_t> indices(tensors.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  std::sort(indices.begin(), indices.end(),
            [&](std::size_t a, std::size_t b) { return tensors[a].name < tensors[b].name; });
  return indices;
}

/// A name that two tensors have, if there is one.
const std::string* repeated_name(std::span<const StoredTensor> tensors) {
  const std::vector<std::size_t> by_name = sorted_by_name(tensors);
  const auto repeated = std::adjacent_find(
      by_name.begin(), by_name.end(),
      [&](std::size_t a, std::size_t b) { return tensors[a].name == tensors[b].name; });
  return repeated == by_name.end() ? nullptr : &tensors[*repeated].name;
}

void expect_bytes_of_shape(const StoredTensor& tensor, const std::string& path) {
  const auto [begin, end] = tensor.bytes;
  if (begin > end) {
    report_damage(path, fmt::format("tensor {} has data_offsets {}, which end before they begin",
                                    shown_text(tensor.name), offsets_of(tensor)));
  }
  const std::optional<std::size_t> bytes = bytes_of(tensor.type, tensor.shape);
  if (!bytes) {
    report_damage(path, fmt::format("{} is larger than any file", described(tensor)));
  }
  if (end - begin != *bytes) {
    report_damage(path, fmt::format("{} has data_offsets {}, which are {} bytes, expected {}",
                                    described(tensor), offsets_of(tensor), end - begin, *bytes));
  }
}

/// Each tensor, in the order of their data, begins where the one before it ends.
void expect_no_gaps(std::span<const StoredTensor> tensors, const std::string& path) {
  std::size_t end = 0;
  const StoredTensor* before = nullptr;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.bytes.begin > end) {
      report_damage(path, fmt::format("no tensor covers the bytes [{}, {}] of its data, before "
                                      "tensor {}; expected data without gaps",
                                      end, tensor.bytes.begin, shown_text(tensor.name)));
    }
    if (before != nullptr && tensor.bytes.begin < end) {
      report_damage(path, fmt::format("tensor {} with data_offsets {} overlaps tensor {} with {}",
                                      shown_text(tensor.name), offsets_of(tensor),
                                      shown_text(before->name), offsets_of(*before)));
    }
    end = tensor.bytes.end;
    before = &tensor;
  }
}

/// @param data_bytes  bytes of the file behind the header.
void expect_end_of_data(std::span<const StoredTensor> tensors, std::size_t data_bytes,
                        const std::string& path) {
  const std::size_t end = tensors.empty() ? 0 : tensors.back().bytes.end;
  if (end > data_bytes) {
    report_damage(
        path, fmt::format("tensor {} has data_offsets {}, but the file has {} bytes of "
                          "data only: it was cut off",
                          shown_text(tensors.back().name), offsets_of(tensors.back()), data_bytes));
  }
  if (end < data_bytes) {
    report_damage(path, fmt::format("its tensors end at byte {} of its data, but the file has {} "
                                    "bytes of data",
                                    end, data_bytes));
  }
}

[[noreturn]] void refuse(const std::string& what) {
  throw ConfigError(fmt::format("a checkpoint file cannot hold {}", what));
}

StoredTensor place(const TensorSpec& spec, std::size_t begin) {
  if (spec.name == kMetadataKey) refuse(fmt::format("a tensor of the name {}", kMetadataKey));
  StoredTensor tensor{spec.name, spec.type, spec.shape, {begin, begin}};
  const std::optional<std::size_t> bytes = bytes_of(spec.type, spec.shape);
  if (!bytes || *bytes > kMaxFileBytes - kMaxJsonBytes - kLengthBytes - begin) {
    refuse(fmt::format("{}: it would be larger than any file", described(tensor)));
  }
  tensor.bytes.end += *bytes;
  return tensor;
}

}  // namespace

SafetensorsHeader::SafetensorsHeader(std::vector<StoredTensor> tensors, Metadata metadata,
                                     std::size_t data_begin)
    : tensors_(std::move(tensors)),
      metadata_(std::move(metadata)),
      data_begin_(data_begin),
      by_name_(sorted_by_name(tensors_)) {}

const StoredTensor* SafetensorsHeader::find(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](std::size_t index, std::string_view wanted) { return tensors_[index].name < wanted; });
  const bool is_there = found != by_name_.end() && tensors_[*found].name == name;
  return is_there ? &tensors_[*found] : nullptr;
}

std::size_t SafetensorsHeader::file_size() const {
  return data_begin_ + (tensors_.empty() ? 0 : tensors_.back().bytes.end);
}

std::size_t SafetensorsHeader::offset_of(const StoredTensor& tensor, std::size_t element) const {
  return data_begin_ + tensor.bytes.begin + element * size_of(tensor.type);
}

std::vector<std::byte> SafetensorsHeader::to_bytes() const {
  std::vector<std::byte> bytes;
  bytes.reserve(data_begin_);
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    bytes.push_back(static_cast<std::byte>((data_begin_ - kLengthBytes) >> (8 * i)));
  }
  const std::string json = write_header_json(tensors_, metadata_);
  const std::span<const std::byte> text = std::as_bytes(std::span(json));
  bytes.insert(bytes.end(), text.begin(), text.end());
  ensure(bytes.size() <= data_begin_, "a safetensors header longer than its place");
  bytes.resize(data_begin_, static_cast<std::byte>(' '));
  return bytes;
}

SafetensorsHeader make_header(std::span<const TensorSpec> specs, Metadata metadata) {
  std::vector<StoredTensor> tensors;
  std::size_t end = 0;
  for (const TensorSpec& spec : specs) {
    tensors.push_back(place(spec, end));
    end = tensors.back().bytes.end;
  }
  if (const std::string* name = repeated_name(tensors)) {
    refuse(fmt::format("two tensors of the name {}", shown_text(*name)));
  }
  const std::size_t json_bytes = write_header_json(tensors, metadata).size();
  const std::size_t data_begin = round_up(kLengthBytes + json_bytes, kAlignment);
  if (data_begin - kLengthBytes > kMaxJsonBytes) {
    refuse(fmt::format("a header of {} tensors: it takes {}, the format allows {}",
                       format_count(tensors.size()), format_bytes(json_bytes),
                       format_bytes(kMaxJsonBytes)));
  }
  return {std::move(tensors), std::move(metadata), data_begin};
}

std::size_t data_begin_of(std::span<const std::byte> start, std::uint64_t file_size,
                          const std::string& path) {
  if (file_size < kLengthBytes) {
    report_damage(path, fmt::format("it has {} bytes, expected at least the {} that hold the "
                                    "length of its header",
                                    file_size, kLengthBytes));
  }
  ensure(start.size() >= kLengthBytes, "fewer bytes of a safetensors file than asked for");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(start[i]) << (8 * i);
  }
  if (length > kMaxJsonBytes) {
    report_damage(path, fmt::format("the length of its header is {}, expected at most {}; is it a "
                                    "safetensors file?",
                                    length, kMaxJsonBytes));
  }
  if (length > file_size - kLengthBytes) {
    report_damage(path, fmt::format("the length of its header is {}, but only {} bytes follow",
                                    length, file_size - kLengthBytes));
  }
  return kLengthBytes + length;
}

SafetensorsHeader parse_header(std::span<const std::byte> start, std::uint64_t file_size,
                               const std::string& path) {
  const std::size_t data_begin = data_begin_of(start, file_size, path);
  ensure(start.size() >= data_begin, "fewer bytes of a safetensors file than its header has");
  const std::span<const std::byte> json = start.first(data_begin).subspan(kLengthBytes);
  const std::string_view text(reinterpret_cast<const char*>(json.data()), json.size());
  auto [tensors, metadata] = read_header_json(text, path);
  if (const std::string* name = repeated_name(tensors)) {
    report_damage(path, fmt::format("two tensors have the name {}", shown_text(*name)));
  }
  for (const StoredTensor& tensor : tensors) expect_bytes_of_shape(tensor, path);
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.bytes.begin, a.bytes.end) < std::pair(b.bytes.begin, b.bytes.end);
  });
  expect_no_gaps(tensors, path);
  expect_end_of_data(tensors, file_size - data_begin, path);
  return {std::move(tensors), std::move(metadata), data_begin};
}

}  // namespace ultra::checkpoint
