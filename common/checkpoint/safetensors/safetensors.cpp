#include "common/checkpoint/safetensors/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/errors.hpp"
#include "common/checkpoint/files/file_damage.hpp"
#include "common/comm/engine/tensor_bytes.hpp"

namespace ultra::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "the format's numbers are little-endian");

SafetensorsHeader read_header(const InputFile& file, const std::string& path) {
  std::vector<std::byte> start(std::min<std::uint64_t>(kLengthBytes, file.size()));
  file.read_at(0, start);
  // Checks the length against the file before memory is taken for it.
  start.resize(data_begin_of(start, file.size(), path));
  file.read_at(0, start);
  return parse_header(start, file.size(), path);
}

void expect_readable_into(const Tensor& out) {
  if (!out.defined()) throw ShapeError("a tensor to read into is undefined");
  if (out.device().kind() != DeviceKind::kCpu) {
    throw ShapeError("a tensor to read into must be on the CPU. Read there, then copy it.");
  }
  if (!out.is_contiguous()) {
    throw ShapeError(
        fmt::format("a tensor to read into must be contiguous, found shape {} with strides {}",
                    out.shape().str(), out.strides().str()));
  }
}

}  // namespace

SafetensorsReader::SafetensorsReader(FileLayer& files, const std::filesystem::path& path)
    : SafetensorsReader(files.open_for_reading(path), path.string()) {}

SafetensorsReader::SafetensorsReader(std::unique_ptr<InputFile> file, std::string path)
    : path_(std::move(path)), file_(std::move(file)), header_(read_header(*file_, path_)) {}

const StoredTensor& SafetensorsReader::at(std::string_view name) const {
  const StoredTensor* const tensor = find(name);
  if (tensor == nullptr) {
    const std::string example =
        tensors().empty() ? ""
                          : fmt::format(", for example {}", shown_text(tensors().front().name));
    throw FileError(fmt::format("safetensors file '{}' has no tensor {}; it has {}{}", path_,
                                shown_text(name), tensors().size(), example));
  }
  return *tensor;
}

void SafetensorsReader::read(std::string_view name, std::size_t first_element,
                             const Tensor& out) const {
  expect_readable_into(out);
  const StoredTensor& tensor = at(name);
  if (dtype_for(tensor.type) != out.dtype()) {
    throw FileError(fmt::format(
        "safetensors file '{}': tensor {} holds elements of {}, expected {}. Nothing is converted: "
        "convert the file with the program that has written it.",
        path_, shown_text(name), to_string(tensor.type), to_string(stored_type_for(out.dtype()))));
  }
  if (first_element > tensor.numel() || out.numel() > tensor.numel() - first_element) {
    throw FileError(fmt::format(
        "safetensors file '{}': tensor {} of shape {} has {} elements, expected {} from element {} "
        "on",
        path_, shown_text(name), shown_shape(tensor.shape), tensor.numel(), out.numel(),
        first_element));
  }
  file_->read_at(header_.offset_of(tensor, first_element), comm::bytes_of(out));
}

void SafetensorsReader::read_bytes(const StoredTensor& tensor, std::size_t first_byte,
                                   std::span<std::byte> out) const {
  const std::size_t bytes = tensor.bytes.size();
  if (first_byte > bytes || out.size() > bytes - first_byte) {
    throw FileError(
        fmt::format("safetensors file '{}': tensor {} has {} bytes, expected {} from byte {} on",
                    path_, shown_text(tensor.name), bytes, out.size(), first_byte));
  }
  file_->read_at(header_.offset_of(tensor, 0) + first_byte, out);
}

}  // namespace ultra::checkpoint
