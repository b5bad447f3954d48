#include "common/tensor/half_types.hpp"

#include <cstddef>
#include <cstring>

#include "common/base/errors.hpp"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace ultra {
namespace {

template <StoredScalar To, StoredScalar From>
void convert_each(const From* from, To* to, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) to[i] = number_as<To>(from[i]);
}

#ifdef __F16C__
// The processor's own conversions, 8 elements at a time; the compiler does not find them.
void convert_each(const Float16* from, float* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m128i bits;
    std::memcpy(&bits, from + i, sizeof(bits));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(bits));
  }
  for (; i < count; ++i) to[i] = number_as<float>(from[i]);
}

void convert_each(const float* from, Float16* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    std::memcpy(to + i, &bits, sizeof(bits));
  }
  for (; i < count; ++i) to[i] = number_as<Float16>(from[i]);
}
#endif

}  // namespace

template <StoredScalar To, StoredScalar From>
void convert(std::span<const From> from, std::span<To> to) {
  ensure(from.size() == to.size(), "as many elements to convert as there is room for");
  if constexpr (std::is_same_v<To, From>) {
    if (!from.empty()) std::memmove(to.data(), from.data(), from.size_bytes());
  } else {
    convert_each(from.data(), to.data(), from.size());
  }
}

template void convert(std::span<const float>, std::span<float>);
template void convert(std::span<const float>, std::span<double>);
template void convert(std::span<const float>, std::span<BFloat16>);
template void convert(std::span<const float>, std::span<Float16>);
template void convert(std::span<const double>, std::span<float>);
template void convert(std::span<const double>, std::span<double>);
template void convert(std::span<const double>, std::span<BFloat16>);
template void convert(std::span<const double>, std::span<Float16>);
template void convert(std::span<const BFloat16>, std::span<float>);
template void convert(std::span<const BFloat16>, std::span<double>);
template void convert(std::span<const BFloat16>, std::span<BFloat16>);
template void convert(std::span<const BFloat16>, std::span<Float16>);
template void convert(std::span<const Float16>, std::span<float>);
template void convert(std::span<const Float16>, std::span<double>);
template void convert(std::span<const Float16>, std::span<BFloat16>);
template void convert(std::span<const Float16>, std::span<Float16>);

}  // namespace ultra
