#include "common/comm/engine/tensor_bytes.hpp"

#include <cstdint>
#include <functional>

namespace ultra::comm {

std::span<std::byte> bytes_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  switch (tensor.dtype()) {
    case DType::kF32:
      return std::as_writable_bytes(tensor.span<float>());
    case DType::kF64:
      return std::as_writable_bytes(tensor.span<double>());
    case DType::kBF16:
      return std::as_writable_bytes(tensor.span<BFloat16>());
    case DType::kF16:
      return std::as_writable_bytes(tensor.span<Float16>());
    case DType::kI32:
      break;
  }
  return std::as_writable_bytes(tensor.span<std::int32_t>());
}

std::span<std::byte> memory_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {static_cast<std::byte*>(tensor.address()), tensor.nbytes()};
}

bool overlap(const Tensor& a, const Tensor& b) {
  const std::span<const std::byte> one = memory_of(a);
  const std::span<const std::byte> other = memory_of(b);
  const std::less<const std::byte*> before;
  return !one.empty() && !other.empty() && before(one.data(), other.data() + other.size()) &&
         before(other.data(), one.data() + one.size());
}

}  // namespace ultra::comm
