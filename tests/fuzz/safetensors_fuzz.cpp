#include "tests/fuzz/safetensors_fuzz.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "common/checkpoint/safetensors/safetensors.hpp"
#include "tests/support/files/memory_input.hpp"

namespace ultra::test {
namespace {

using checkpoint::SafetensorsHeader;
using checkpoint::SafetensorsReader;
using checkpoint::StoredTensor;

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

void check_tensor(const SafetensorsReader& reader, const StoredTensor& tensor,
                  std::span<const std::byte> file) {
  require(reader.find(tensor.name) == &tensor, "a tensor is not found by its name");
  std::size_t bytes = size_of(tensor.type);
  for (const std::size_t extent : tensor.shape) bytes *= extent;
  require(tensor.bytes.size() == bytes, "a tensor's bytes are not those of its shape");
  std::vector<std::byte> data(bytes);
  reader.read_bytes(tensor, 0, data);
  const std::size_t begin = reader.header().offset_of(tensor, 0);
  require(std::ranges::equal(data, file.subspan(begin, bytes)), "other bytes are read");
}

/// Each byte of the data belongs to one tensor, and the header can be written again.
void check_consistent(const SafetensorsReader& reader, std::span<const std::byte> file) {
  const SafetensorsHeader& header = reader.header();
  std::size_t end = 0;
  for (const StoredTensor& tensor : reader.tensors()) {
    require(tensor.bytes.begin == end, "tensors have a gap or overlap");
    end = tensor.bytes.end;
    check_tensor(reader, tensor, file);
  }
  require(header.data_begin() + end == file.size(), "tensors do not end with the file");
  require(header.file_size() == file.size(), "another size of the file");
  const std::vector<std::byte> start = header.to_bytes();
  require(start.size() == header.data_begin(), "the header is written with another length");
  const SafetensorsHeader again = checkpoint::parse_header(start, file.size(), "again");
  require(again.tensors() == header.tensors() && again.metadata() == header.metadata(),
          "the header is written with another meaning");
}

void check_message(const std::string& message) {
  constexpr std::size_t kLongest = 1000;
  require(message.size() < kLongest, "a message is very long");
  require(message.find('\n') == std::string::npos, "a message has several lines");
}

}  // namespace

bool accepts_safetensors(std::span<const std::byte> file) {
  std::unique_ptr<SafetensorsReader> reader;
  try {
    reader = std::make_unique<SafetensorsReader>(std::make_unique<MemoryInput>(file), "any bytes");
  } catch (const FileError& error) {
    check_message(error.what());
    return false;
  }
  check_consistent(*reader, file);
  return true;
}

}  // namespace ultra::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ultra::test::accepts_safetensors(std::as_bytes(std::span(data, size)));
  return 0;
}
