#pragma once
/// @file
/// SafetensorsReader: reads tensors, or parts of them, from a safetensors file.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/checkpoint/files/file_layer.hpp"
#include "common/checkpoint/safetensors/safetensors_header.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::checkpoint {

/// @brief An open safetensors file whose header has been checked.
///
/// Reads what is asked for and keeps no data. Several threads may read at once.
class SafetensorsReader {
 public:
  /// @brief Opens a file and reads its header.
  /// @throws FileError when it cannot be read or is damaged.
  SafetensorsReader(FileLayer& files, const std::filesystem::path& path);

  /// @brief Reads the header of an open file.
  /// @param path  for messages.
  /// @throws FileError when it cannot be read or is damaged.
  SafetensorsReader(std::unique_ptr<InputFile> file, std::string path);

  /// @brief What the file says about itself.
  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }

  /// @brief The tensors, in the order of their data.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return header_.tensors(); }

  /// @brief The texts beside the tensors.
  [[nodiscard]] const Metadata& metadata() const { return header_.metadata(); }

  /// @brief The tensor of that name; null when there is none.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const { return header_.find(name); }

  /// @brief Reads consecutive elements of a tensor.
  /// @param name           of the tensor in the file.
  /// @param first_element  row-major index in the stored tensor.
  /// @param out            contiguous, on the CPU, any shape; all of its elements are read.
  /// @throws FileError when there is no such tensor, its type is not that of `out`, or it has fewer
  /// elements.
  /// @throws ShapeError when `out` is undefined, not contiguous or not on the CPU.
  void read(std::string_view name, std::size_t first_element, const Tensor& out) const;

  /// @brief Reads consecutive bytes of a tensor of any type.
  /// @param tensor      one of tensors().
  /// @param first_byte  counts from the beginning of the tensor.
  /// @throws FileError when the tensor has fewer bytes.
  void read_bytes(const StoredTensor& tensor, std::size_t first_byte,
                  std::span<std::byte> out) const;

 private:
  [[nodiscard]] const StoredTensor& at(std::string_view name) const;

  std::string path_;
  std::unique_ptr<InputFile> file_;
  SafetensorsHeader header_;
};

}  // namespace ultra::checkpoint
