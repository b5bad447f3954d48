#include "common/checkpoint/safetensors/convert.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#include "common/base/errors.hpp"

namespace ultra::checkpoint {
namespace {

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

float from_f16(std::uint16_t bits) {
  const int exponent = (bits >> 10U) & 0x1F;
  const int fraction = bits & 0x3FF;
  float value;
  if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);  // subnormal numbers and zero
  } else if (exponent == 0x1F) {
    value = fraction == 0 ? INFINITY : NAN;
  } else {
    value = std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
  }
  return (bits & 0x8000U) != 0 ? -value : value;
}

template <class Stored, class Out, class Convert>
void convert_each(std::span<const std::byte> bytes, std::span<Out> out, const Convert& one) {
  ensure(bytes.size() == out.size() * sizeof(Stored), "as many elements as are wanted");
  const std::byte* from = bytes.data();
  for (Out& value : out) {
    Stored stored;
    std::memcpy(&stored, from, sizeof(Stored));
    from += sizeof(Stored);
    value = static_cast<Out>(one(stored));
  }
}

}  // namespace

bool is_converted(StoredType type) {
  return type == StoredType::kF16 || type == StoredType::kBF16 || type == StoredType::kF32 ||
         type == StoredType::kF64;
}

void convert(std::span<const std::byte> bytes, StoredType type, const Tensor& out) {
  ensure(is_converted(type), "a type that is converted");
  dispatch_float(out.dtype(), [&]<class T>() {
    const std::span<T> values = out.span<T>();
    if (type == StoredType::kF16) return convert_each<std::uint16_t>(bytes, values, from_f16);
    if (type == StoredType::kBF16) return convert_each<std::uint16_t>(bytes, values, from_bf16);
    if (type == StoredType::kF32) return convert_each<float>(bytes, values, std::identity());
    return convert_each<double>(bytes, values, std::identity());
  });
}

}  // namespace ultra::checkpoint
