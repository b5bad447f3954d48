#include "chapters/10_mixed_precision/block_formats/scales.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "chapters/10_mixed_precision/e4m3_saturation.hpp"
#include "chapters/10_mixed_precision/formats/number_format.hpp"

namespace ultra::mixed_precision {
namespace {

using Numbers = std::array<float, 256>;

Numbers numbers_of(const NumberFormat& format) {
  Numbers numbers{};
  for (std::uint32_t code = 0; code < numbers.size(); ++code) {
    numbers[code] = static_cast<float>(decode(format, code));
  }
  return numbers;
}

}  // namespace

std::string_view to_string(Fp8 format) { return format == Fp8::kE4m3 ? "e4m3" : "e5m2"; }

float largest_of(Fp8 format) { return format == Fp8::kE4m3 ? kE4m3Largest : 57344.0F; }

std::uint8_t fp8_from_f32(Fp8 format, float x) {
  return format == Fp8::kE4m3 ? e4m3_from_f32(x) : e5m2_from_f32(x, Overflow::kSaturate);
}

float f32_from_fp8(Fp8 format, std::uint8_t code) {
  static const Numbers e4m3 = numbers_of(kFp8E4m3);
  static const Numbers e5m2 = numbers_of(kFp8E5m2);
  return format == Fp8::kE4m3 ? e4m3[code] : e5m2[code];
}

float power_of_two_scale(float amax, Fp8 format, int margin) {
  if (!(amax > 0.0F) || std::isinf(amax)) return 1.0F;
  const int exponent = std::ilogb(double{largest_of(format)} / double{amax}) - margin;
  return std::ldexp(1.0F, std::clamp(exponent, -126, 126));  // both it and its inverse are normal
}

}  // namespace ultra::mixed_precision
