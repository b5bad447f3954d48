#include "chapters/10_mixed_precision/block_formats/scales.hpp"

#include "chapters/10_mixed_precision/blockwise_product.hpp"
#include "tests/support/nearest_number.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

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
