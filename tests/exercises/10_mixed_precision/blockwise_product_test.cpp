// Contract of exercise 10.5: matrices in fp8 with scales of tiles, and their products.
#include "chapters/10_mixed_precision/blockwise_product.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr const char* kFactor =
    "Hint: each tile has its own factor: its largest magnitude divided by the format's largest "
    "number.";
constexpr const char* kCodes =
    "Hint: a code is that of the number divided by its tile's factor, and the code's number times "
    "the factor is near to it again.";
constexpr const char* kZeros = "Hint: a tile of zeros has nothing to divide by: its factor is 1.";
constexpr const char* kProduct =
    "Hint: the sum over an interval knows no factors: multiply it with those of both tiles, then "
    "add.";
constexpr const char* kIntervals =
    "Hint: the factors change along the inner dimension: each interval has those of its own tiles.";
constexpr const char* kPromotion =
    "Hint: the accumulator begins anew in each interval; over the whole inner dimension it would "
    "lose what it adds.";
constexpr const char* kFewBits =
    "Hint: the sums between promotions are made by the accumulator that was asked for.";

class BlockwiseProduct : public ultra::test::RandomTest {
 protected:
  /// Numbers whose size differs from tile to tile.
  std::vector<float> numbers_for(const TileGrid& grid) {
    std::vector<double> sizes;
    for (std::size_t t = 0; t < grid.tiles(); ++t) {
      sizes.push_back(std::exp2(random.uniform(-12.0, 12.0)));
    }
    std::vector<float> x;
    for (std::size_t i = 0; i < grid.rows * grid.columns; ++i) {
      const std::size_t tile = grid.tile_of(i / grid.columns, i % grid.columns);
      x.push_back(static_cast<float>(random.normal() * sizes[tile]));
    }
    return x;
  }

  TileGrid any_grid() {
    return {.rows = random.between(1, 9),
            .columns = random.between(1, 300),
            .tile = random.pick({kPerTensor, kActivationTile, kWeightTile, TileShape{3, 50}})};
  }

  /// Codes of small integers, with factors that are powers of two: every sum is exact.
  QuantizedMatrix integers(std::size_t rows, std::size_t columns, const TileShape& tile) {
    QuantizedMatrix matrix{
        .grid = {rows, columns, tile}, .format = Fp8::kE4m3, .codes = {}, .factors = {}};
    for (std::size_t i = 0; i < rows * columns; ++i) {
      const auto integer = static_cast<float>(random.between(0, 4)) - 2.0F;
      matrix.codes.push_back(fp8_from_f32(Fp8::kE4m3, integer));
    }
    for (std::size_t t = 0; t < matrix.grid.tiles(); ++t) {
      matrix.factors.push_back(static_cast<float>(std::exp2(random.between(0, 6))));
    }
    return matrix;
  }

  /// The product of the numbers, in f64; and the sum of the magnitudes of its terms.
  static std::pair<std::vector<double>, std::vector<double>> exact(const QuantizedMatrix& a,
                                                                   const QuantizedMatrix& b) {
    std::vector<double> products, sizes;
    for (std::size_t i = 0; i < a.grid.rows; ++i) {
      for (std::size_t j = 0; j < b.grid.rows; ++j) {
        double sum = 0, size = 0;
        for (std::size_t k = 0; k < a.grid.columns; ++k) {
          const double term = double{a.number(i, k)} * double{a.factor(i, k)} *
                              double{b.number(j, k)} * double{b.factor(j, k)};
          sum += term;
          size += std::abs(term);
        }
        products.push_back(sum);
        sizes.push_back(size);
      }
    }
    return {products, sizes};
  }
};

TEST_F(BlockwiseProduct, EveryTileHasItsFactorAndNumbersComeBackWithinHalfAStep) {
  for (int round = 0; round < 40; ++round) {
    const TileGrid grid = any_grid();
    const Fp8 format = random.pick({Fp8::kE4m3, Fp8::kE5m2});
    const std::vector<float> x = numbers_for(grid);
    const QuantizedMatrix matrix = quantize_tiles(x, grid, format);
    ASSERT_EQ(matrix.codes.size(), x.size()) << kCodes;
    ASSERT_EQ(matrix.factors.size(), grid.tiles()) << kFactor;
    const std::vector<float> amax = amax_of_tiles(x, grid);
    for (std::size_t t = 0; t < grid.tiles(); ++t) {
      EXPECT_FLOAT_EQ(matrix.factors[t], amax[t] / largest_of(format)) << kFactor;
    }
    EXPECT_EQ(matrix.format, format);
    EXPECT_EQ(matrix.bytes(), x.size() + 4 * grid.tiles());
    if (format != Fp8::kE4m3) continue;
    const std::vector<float> back = dequantized(matrix);
    for (std::size_t i = 0; i < x.size(); ++i) {
      // Half a step: 2^-4 of a normal number, 2^-10 factors below; and two roundings of f32.
      const double factor = static_cast<double>(matrix.factor(i / grid.columns, i % grid.columns));
      const double size = std::abs(static_cast<double>(x[i]));
      const double bound = std::max(0x1p-4 * size, 0x1p-10 * factor) + 0x1p-22 * size;
      ASSERT_NEAR(back[i], x[i], bound) << kCodes;
    }
  }
}

TEST_F(BlockwiseProduct, TilesOfZeros) {
  std::vector<float> x(2 * 256, 0.0F);
  x[300] = 3.0F;
  const QuantizedMatrix matrix = quantize_tiles(x, {2, 256, kActivationTile}, Fp8::kE4m3);
  ASSERT_EQ(matrix.factors.size(), 4U) << kFactor;
  EXPECT_EQ(matrix.factors[0], 1.0F) << kZeros;
  EXPECT_EQ(dequantized(matrix), x) << kZeros;
}

TEST_F(BlockwiseProduct, ProductsOfIntegersAreExact) {
  for (const Accumulator accumulator : {Accumulator::kF32, Accumulator::kFewBits}) {
    for (int round = 0; round < 10; ++round) {
      const std::size_t inner = random.between(1, 400);
      const bool tiles = round % 4 > 0;  // or one factor for all
      const QuantizedMatrix a =
          integers(random.between(1, 5), inner, tiles ? kActivationTile : kPerTensor);
      const QuantizedMatrix b =
          integers(random.between(1, 5), inner, tiles ? kWeightTile : kPerTensor);
      const Tensor product = blockwise_product(a, b, accumulator);
      ASSERT_EQ(product.shape(), (Shape{a.grid.rows, b.grid.rows})) << kProduct;
      EXPECT_TRUE(test::all_equal(product, exact(a, b).first))
          << (inner > kPromotionInterval ? kIntervals : kProduct);
    }
  }
}

TEST_F(BlockwiseProduct, SumsInF32) {
  const std::size_t inner = random.between(100, 500);
  const TileGrid rows{4, inner, kActivationTile};
  const TileGrid columns{5, inner, kWeightTile};
  const QuantizedMatrix a = quantize_tiles(numbers_for(rows), rows, Fp8::kE4m3);
  const QuantizedMatrix b = quantize_tiles(numbers_for(columns), columns, Fp8::kE4m3);
  const auto [products, sizes] = exact(a, b);
  std::vector<double> bounds;
  for (const double size : sizes) {
    bounds.push_back(rounding_bound(DType::kF32, count_of(inner + 4), size));
  }
  EXPECT_TRUE(all_near(blockwise_product(a, b, Accumulator::kF32), products, bounds)) << kIntervals;
}

TEST_F(BlockwiseProduct, PromotionSavesLongSums) {
  // Ones: from 2^14 on an accumulator of 14 bits no longer moves when 1 is added.
  constexpr std::size_t kInner = std::size_t{1} << 16U;
  const std::vector<float> ones(kInner, 448.0F);
  const QuantizedMatrix a = quantize_tiles(ones, {1, kInner, kActivationTile}, Fp8::kE4m3);
  const QuantizedMatrix b = quantize_tiles(ones, {1, kInner, kWeightTile}, Fp8::kE4m3);
  const Tensor product = blockwise_product(a, b, Accumulator::kFewBits);
  EXPECT_EQ(product.to_vector().front(), 448.0 * 448.0 * kInner) << kPromotion;
}

TEST_F(BlockwiseProduct, FewBitsLoseWhatF32Keeps) {
  // Beside a product of 2^14 the accumulator's last place is 2: a product of 1 is cut off.
  std::vector<float> x(64, 1.0F);
  x[0] = 128.0F;
  QuantizedMatrix a{
      .grid = {1, 64, kActivationTile}, .format = Fp8::kE4m3, .codes = {}, .factors = {1.0F}};
  for (const float number : x) a.codes.push_back(fp8_from_f32(Fp8::kE4m3, number));
  EXPECT_EQ(blockwise_product(a, a, Accumulator::kFewBits).to_vector().front(), 16384.0)
      << kFewBits;
  EXPECT_EQ(blockwise_product(a, a, Accumulator::kF32).to_vector().front(), 16447.0) << kFewBits;
}

}  // namespace
}  // namespace ultra::mixed_precision
