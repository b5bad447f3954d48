#pragma once
/// @file
/// SafetensorsHeader: which tensors a safetensors file holds, and where.
///
/// The format: 8 bytes N, little-endian; N bytes of JSON; the tensors' data, row-major and
/// little-endian, without gaps. The JSON is an object
///
///     {"__metadata__": {"format": "pt"},
///      "model.norm.weight": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}, ...}
///
/// whose offsets count from the first byte after it; spaces may follow it.
/// Source: https://github.com/huggingface/safetensors, "Format".

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/checkpoint/safetensors/stored_type.hpp"
#include "common/tensor/shape.hpp"

namespace ultra::checkpoint {

/// Bytes that say how long the JSON is.
inline constexpr std::size_t kLengthBytes = 8;

/// Most bytes of JSON that a file may have: the reference implementation's limit.
inline constexpr std::size_t kMaxJsonBytes = 100'000'000;

/// The key of the metadata; no tensor can have this name.
inline constexpr std::string_view kMetadataKey = "__metadata__";

/// @brief Texts by name, beside the tensors.
using Metadata = std::map<std::string, std::string>;

/// @brief A tensor that a file is to hold.
struct TensorSpec {
  std::string name;                    ///< in UTF-8
  StoredType type = StoredType::kF32;  ///< of each element
  std::vector<std::size_t> shape;      ///< extents, outermost first; none for a scalar
  bool operator==(const TensorSpec&) const = default;  ///< @brief Equal in all members.
};

/// @brief A tensor of a file. Its shape may have more dimensions than a Tensor can.
struct StoredTensor {
  std::string name;                    ///< in UTF-8
  StoredType type = StoredType::kF32;  ///< of each element
  std::vector<std::size_t> shape;      ///< extents, outermost first; none for a scalar
  Range bytes;                         ///< within the data: counts from its begin
  bool operator==(const StoredTensor&) const = default;  ///< @brief Equal in all members.

  /// @brief Number of elements.
  [[nodiscard]] std::size_t numel() const { return bytes.size() / size_of(type); }
};

/// @brief What stands before the data. Holds, however it was made: names differ; the tensors cover
/// the data without gaps or overlaps, each with as many bytes as its shape and type ask for.
class SafetensorsHeader {
 public:
  /// @brief The tensors, in the order of their data.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return tensors_; }

  /// @brief The texts beside the tensors.
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }

  /// @brief The tensor of that name; null when there is none.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;

  /// @brief Bytes of the file before the data.
  [[nodiscard]] std::size_t data_begin() const { return data_begin_; }

  /// @brief Bytes of the whole file.
  [[nodiscard]] std::size_t file_size() const;

  /// @brief Where in the file an element of a tensor is.
  /// @param element  row-major; at most numel().
  [[nodiscard]] std::size_t offset_of(const StoredTensor& tensor, std::size_t element) const;

  /// @brief What the file begins with: data_begin() bytes. Of a header that was read these may be
  /// other bytes of the same meaning.
  [[nodiscard]] std::vector<std::byte> to_bytes() const;

 private:
  SafetensorsHeader(std::vector<StoredTensor> tensors, Metadata metadata, std::size_t data_begin);
  friend SafetensorsHeader make_header(std::span<const TensorSpec> specs, Metadata metadata);
  friend SafetensorsHeader parse_header(std::span<const std::byte> start, std::uint64_t file_size,
                                        const std::string& path);

  std::vector<StoredTensor> tensors_;
  Metadata metadata_;
  std::size_t data_begin_;
  std::vector<std::size_t> by_name_;  // indices of tensors_
};

/// @brief Lays tensors out one after the other, in the order given; the data begins at a multiple
/// of 8 bytes.
/// @throws ConfigError for a name that comes twice, is not UTF-8 or is the metadata's, for a shape
/// of too many elements, and when the JSON would be longer than kMaxJsonBytes.
[[nodiscard]] SafetensorsHeader make_header(std::span<const TensorSpec> specs,
                                            Metadata metadata = {});

/// @brief Bytes before the data, from the first of them.
/// @param start      the first kLengthBytes of the file, or all of it if it is shorter.
/// @param file_size  bytes of the whole file.
/// @param path       for messages.
/// @throws FileError when that cannot be the beginning of a file of this size.
[[nodiscard]] std::size_t data_begin_of(std::span<const std::byte> start, std::uint64_t file_size,
                                        const std::string& path);

/// @brief Reads what stands before the data, and checks all of it.
/// @param start      the file's first bytes: at least data_begin_of(), the others are not looked at.
/// @param file_size  bytes of the whole file.
/// @param path       for messages.
/// @throws FileError that says what is wrong, what was expected, the path and the tensor.
/// Memory: a few times the JSON's bytes, whatever they say.
[[nodiscard]] SafetensorsHeader parse_header(std::span<const std::byte> start,
                                             std::uint64_t file_size, const std::string& path);

}  // namespace ultra::checkpoint
