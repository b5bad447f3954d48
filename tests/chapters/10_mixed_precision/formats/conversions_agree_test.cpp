// The core's fast conversions are those of this chapter, which are tested against tables.
#include <bit>

#include "chapters/10_mixed_precision/bf16_rounding.hpp"
#include "chapters/10_mixed_precision/formats/small_floats.hpp"
#include "common/tensor/half_types.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

class ConversionsAgree : public ultra::test::RandomTest {
 protected:
  /// All upper halves, each with the lower halves that decide and a random one.
  std::vector<float> dense_sample() {
    std::vector<float> sample;
    for (std::uint32_t upper = 0; upper <= 0xFFFF; ++upper) {
      const auto drawn = static_cast<std::uint32_t>(random.between(0, 0xFFFF));
      for (const std::uint32_t lower :
           {0U, 1U, 0x0FFFU, 0x1000U, 0x7FFFU, 0x8000U, 0x8001U, drawn}) {
        sample.push_back(std::bit_cast<float>(upper << 16U | lower));
      }
    }
    return sample;
  }
};

bool same_or_both_nan(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

TEST_F(ConversionsAgree, FromF32) {
  const std::vector<float> sample = dense_sample();
  std::vector<BFloat16> bf16(sample.size());
  std::vector<Float16> fp16(sample.size());
  convert(std::span<const float>(sample), std::span(bf16));
  convert(std::span<const float>(sample), std::span(fp16));
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const float x = sample[i];
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(bf16[i])) &&
                  std::isnan(static_cast<float>(fp16[i])));
      continue;
    }
    ASSERT_EQ(bf16[i].bits, bf16_from_f32(x)) << x;
    ASSERT_EQ(round_to<BFloat16>(x).bits, bf16_from_f32(x)) << x;
    ASSERT_EQ(fp16[i].bits, fp16_from_f32(x)) << x;
    ASSERT_EQ(round_to<Float16>(x).bits, fp16_from_f32(x)) << x;
  }
}

TEST_F(ConversionsAgree, BackFromAllPatterns) {
  for (std::uint32_t pattern = 0; pattern <= 0xFFFF; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    ASSERT_TRUE(same_or_both_nan(static_cast<float>(BFloat16{bits}), f32_from_bf16(bits)));
    ASSERT_TRUE(same_or_both_nan(static_cast<float>(Float16{bits}), f32_from_fp16(bits)));
  }
}

#ifdef __FLT16_MAX__
TEST_F(ConversionsAgree, TheCompilersHalfPrecision) {
  for (const float x : dense_sample()) {
    const auto bits = std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
    if (!std::isnan(x)) {
      ASSERT_EQ(fp16_from_f32(x), bits) << x;
    }
  }
}
#endif

}  // namespace
}  // namespace ultra::mixed_precision
