// Blocks with a scale of their own.
//
// Covers: chapters/10_mixed_precision/block_formats/mx.hpp
// Covers: chapters/10_mixed_precision/block_formats/scales.hpp

#include "chapters/10_mixed_precision/block_formats/mx.hpp"
#include "chapters/10_mixed_precision/block_formats/scales.hpp"
#include "chapters/10_mixed_precision/blockwise_product.hpp"
#include "tests/support/nearest_number.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

class Mx : public ultra::test::RandomTest {
 protected:
  std::vector<float> numbers(std::size_t count) {
    std::vector<float> x;
    double size = 1;
    for (std::size_t i = 0; i < count; ++i) {
      if (i % kMxBlock == 0) size = std::exp2(random.uniform(-40.0, 40.0));
      x.push_back(static_cast<float>(random.normal() * size));
    }
    return x;
  }
};

TEST_F(Mx, ScalesArePowersOfTwo) {
  EXPECT_EQ(f32_from_e8m0(127), 1.0F);
  EXPECT_EQ(f32_from_e8m0(0), 0x1p-127F);
  EXPECT_EQ(f32_from_e8m0(254), 0x1p127F);
  EXPECT_TRUE(std::isnan(f32_from_e8m0(255)));
  // 448 = 1.75 * 2^8: a block whose largest number is of exponent 8 has the scale 1.
  EXPECT_EQ(mx_scale(256.0F, Fp8::kE4m3), 127);
  EXPECT_EQ(mx_scale(511.9F, Fp8::kE4m3), 127);
  EXPECT_EQ(mx_scale(512.0F, Fp8::kE4m3), 128);
  EXPECT_EQ(mx_scale(32768.0F, Fp8::kE5m2), 127);
  EXPECT_EQ(mx_scale(0.0F, Fp8::kE4m3), 0);
  EXPECT_EQ(mx_scale(1e-45F, Fp8::kE4m3), 0);
}

TEST_F(Mx, NumbersComeBackWithinTheFormatsError) {
  for (const Fp8 format : {Fp8::kE4m3, Fp8::kE5m2}) {
    const double half_step = format == Fp8::kE4m3 ? 0x1p-4 : 0x1p-3;
    const double half_smallest = format == Fp8::kE4m3 ? 0x1p-10 : 0x1p-17;
    const std::vector<float> x = numbers(random.between(1, 500));
    const MxNumbers stored = mx_quantize(x, format);
    const std::vector<float> back = mx_dequantize(stored);
    ASSERT_EQ(back.size(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto scale = static_cast<double>(f32_from_e8m0(stored.scales[i / kMxBlock]));
      const double size = std::abs(static_cast<double>(x[i]));
      const double beyond = size - scale * static_cast<double>(largest_of(format));
      const double bound = std::max({half_step * size, half_smallest * scale, beyond});
      EXPECT_NEAR(back[i], x[i], bound);
    }
  }
}

TEST_F(Mx, BytesOfCodesAndScales) {
  EXPECT_EQ(mx_quantize({}, Fp8::kE4m3).bytes(), 0U);
  EXPECT_EQ(mx_quantize(numbers(32), Fp8::kE4m3).bytes(), 33U);
  EXPECT_EQ(mx_quantize(numbers(33), Fp8::kE4m3).bytes(), 35U);
}

TEST_F(Mx, ABlockThatIsNotFiniteIsNan) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x = numbers(3 * kMxBlock);
    x[kMxBlock + random.between(0, kMxBlock - 1)] = bad;
    const std::vector<float> back = mx_dequantize(mx_quantize(x, Fp8::kE4m3));
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(std::isnan(back[i]), i / kMxBlock == 1) << i;
    }
  }
}

TEST_F(Mx, BlocksOfZerosStayZeros) {
  const std::vector<float> zeros(40, 0.0F);
  EXPECT_EQ(mx_dequantize(mx_quantize(zeros, Fp8::kE4m3)), zeros);
}

class Scales : public ultra::test::RandomTest {};

TEST_F(Scales, AllCodesOfBothFormats) {
  for (const auto& [format, table] :
       {std::pair{Fp8::kE4m3, test::kE4m3Table}, std::pair{Fp8::kE5m2, test::kE5m2Table}}) {
    const std::vector<double> magnitudes = test::magnitudes_of(table);
    EXPECT_EQ(largest_of(format), magnitudes.back());
    for (std::size_t code = 0; code < magnitudes.size(); ++code) {
      const auto byte = static_cast<std::uint8_t>(code);
      EXPECT_EQ(f32_from_fp8(format, byte), magnitudes[code]);
      EXPECT_EQ(fp8_from_f32(format, f32_from_fp8(format, byte)), byte);
    }
    EXPECT_EQ(fp8_from_f32(format, 1e30F), magnitudes.size() - 1) << "saturates";
  }
}

TEST_F(Scales, TheLargestPowerOfTwoThatFits) {
  for (const Fp8 format : {Fp8::kE4m3, Fp8::kE5m2}) {
    for (int round = 0; round < 500; ++round) {
      const auto amax = static_cast<float>(std::exp2(random.uniform(-60.0, 60.0)));
      const float scale = power_of_two_scale(amax, format);
      int exponent = 0;
      EXPECT_EQ(std::frexp(scale, &exponent), 0.5F) << "a power of two";
      EXPECT_LE(amax * scale, largest_of(format));
      EXPECT_GT(2 * amax * scale, largest_of(format));
      EXPECT_EQ(power_of_two_scale(amax, format, 3), scale / 8);
    }
    EXPECT_EQ(power_of_two_scale(largest_of(format), format), 1.0F);
  }
}

TEST_F(Scales, OneWhereNothingFollowsFromTheNumbers) {
  for (const float amax :
       {0.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(power_of_two_scale(amax, Fp8::kE4m3), 1.0F);
  }
  EXPECT_TRUE(std::isfinite(1.0F / power_of_two_scale(1e-45F, Fp8::kE5m2)));
}

TEST_F(Scales, AnOutlierSpoilsItsTileOnly) {
  // Beside an outlier that is 2^20 as large, nothing is left of a number with one scale for all.
  std::vector<float> x(4 * 256, 1.0F);
  x[0] = 0x1p20F;
  const auto lost = [&x](const TileShape& tile) {
    const QuantizedMatrix matrix = quantize_tiles(x, {4, 256, tile}, Fp8::kE4m3);
    return std::ranges::count(dequantized(matrix), 0.0F);
  };
  EXPECT_EQ(lost(kPerTensor), 4 * 256 - 1);
  EXPECT_EQ(lost(kWeightTile), 4 * 128 - 1);
  EXPECT_EQ(lost(kActivationTile), 128 - 1);
}

}  // namespace
}  // namespace ultra::mixed_precision
