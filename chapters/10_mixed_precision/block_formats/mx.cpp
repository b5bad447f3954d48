#include "chapters/10_mixed_precision/block_formats/mx.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/numeric.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr int kBias = 127;
constexpr std::uint8_t kNanScale = 255;

std::span<const float> block_of(std::span<const float> x, std::size_t block) {
  const std::size_t begin = block * kMxBlock;
  return x.subspan(begin, std::min(kMxBlock, x.size() - begin));
}

/// NaN when one of the numbers is not finite.
float amax_of(std::span<const float> block) {
  float amax = 0.0F;
  for (const float x : block) {
    if (!std::isfinite(x)) return std::numeric_limits<float>::quiet_NaN();
    amax = std::max(amax, std::abs(x));
  }
  return amax;
}

}  // namespace

float f32_from_e8m0(std::uint8_t code) {
  if (code == kNanScale) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0F, code - kBias);
}

std::uint8_t mx_scale(float amax, Fp8 format) {
  if (!std::isfinite(amax)) return kNanScale;
  const int highest = std::ilogb(largest_of(format));
  const int exponent = amax == 0.0F ? -kBias : std::ilogb(amax) - highest;
  return static_cast<std::uint8_t>(std::clamp(exponent, -kBias, kBias) + kBias);
}

// [region mx]
MxNumbers mx_quantize(std::span<const float> x, Fp8 format) {
  MxNumbers numbers{.format = format, .codes = {}, .scales = {}};
  for (std::size_t block = 0; block < ceil_div(x.size(), kMxBlock); ++block) {
    const std::span<const float> elements = block_of(x, block);
    numbers.scales.push_back(mx_scale(amax_of(elements), format));
    const double scale = f32_from_e8m0(numbers.scales.back());
    for (const float element : elements) {
      numbers.codes.push_back(fp8_from_f32(format, static_cast<float>(double{element} / scale)));
    }
  }
  return numbers;
}
// [/region]

std::vector<float> mx_dequantize(const MxNumbers& numbers) {
  std::vector<float> x;
  x.reserve(numbers.codes.size());
  for (std::size_t i = 0; i < numbers.codes.size(); ++i) {
    x.push_back(f32_from_fp8(numbers.format, numbers.codes[i]) *
                f32_from_e8m0(numbers.scales[i / kMxBlock]));
  }
  return x;
}

}  // namespace ultra::mixed_precision
