#include "common/ops/backend/cpu/half/stored_numbers.hpp"

namespace ultra::ops::cpu::half {
namespace {

void* first_element(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kF32:
      return tensor.span<float>().data();
    case DType::kBF16:
      return tensor.span<BFloat16>().data();
    case DType::kF16:
      return tensor.span<Float16>().data();
    case DType::kF64:
    case DType::kI32:
      break;
  }
  throw_unexpected_dtype(tensor.dtype(), "f32, bf16 or f16");
}

template <class T>
void read_as(const void* data, std::size_t begin, std::size_t count, float* buffer) {
  convert(std::span<const T>(static_cast<const T*>(data) + begin, count),
          std::span<float>(buffer, count));
}

template <class T>
void store_as(void* data, std::size_t begin, std::size_t count, const float* room) {
  convert(std::span<const float>(room, count), std::span<T>(static_cast<T*>(data) + begin, count));
}

}  // namespace

StoredNumbers::StoredNumbers(const Tensor& tensor)
    : dtype_(tensor.dtype()), data_(first_element(tensor)) {}

const float* StoredNumbers::read(std::size_t begin, std::size_t count, float* buffer) const {
  if (dtype_ == DType::kF32) return static_cast<const float*>(data_) + begin;
  if (dtype_ == DType::kBF16) {
    read_as<BFloat16>(data_, begin, count, buffer);
  } else {
    read_as<Float16>(data_, begin, count, buffer);
  }
  return buffer;
}

float* StoredNumbers::room(std::size_t begin, float* buffer) const {
  return dtype_ == DType::kF32 ? static_cast<float*>(data_) + begin : buffer;
}

float* StoredNumbers::update(std::size_t begin, std::size_t count, float* buffer) const {
  static_cast<void>(read(begin, count, buffer));
  return room(begin, buffer);
}

void StoredNumbers::store(std::size_t begin, std::size_t count, const float* room) const {
  if (dtype_ == DType::kBF16) {
    store_as<BFloat16>(data_, begin, count, room);
  } else if (dtype_ == DType::kF16) {
    store_as<Float16>(data_, begin, count, room);
  }
}

}  // namespace ultra::ops::cpu::half
