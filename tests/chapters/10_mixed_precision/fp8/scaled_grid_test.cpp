// Numbers on a grid with a scale, and sums in an accumulator of few bits.
//
// Covers: chapters/10_mixed_precision/fp8/scaled_grid.hpp
// Covers: chapters/10_mixed_precision/fp8/accumulator.hpp

#include "chapters/10_mixed_precision/fp8/scaled_grid.hpp"
#include "chapters/10_mixed_precision/blockwise_product.hpp"
#include "chapters/10_mixed_precision/fp8/accumulator.hpp"
#include "common/ops/matmul.hpp"
#include "tests/support/nearest_number.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr DType kContainers[] = {DType::kF32, DType::kF64, DType::kBF16};

class ScaledGrid : public ultra::test::RandomTest {
 protected:
  static GridPart whole(std::size_t rows, std::size_t columns, const TileShape& tile) {
    return {{0, rows}, {0, columns}, {rows, columns, tile}};
  }

  Tensor scales_for(const Tensor& x, const GridPart& part, Fp8 format) {
    Tensor scales = amax_of(x, part);
    scales_from_amax(scales, format, 0);
    return scales;
  }

  Tensor scale_of_one() {
    Tensor one = Tensor::empty(device, {1}, DType::kF32);
    one.fill(1.0);
    return one;
  }

  TileShape any_tile() { return random.pick({kPerTensor, kActivationTile, kWeightTile}); }
};

TEST_F(ScaledGrid, RoundsAsTheConversionsDo) {
  for (const auto& [format, table] :
       {std::pair{Fp8::kE4m3, test::kE4m3Table}, std::pair{Fp8::kE5m2, test::kE5m2Table}}) {
    std::vector<float> numbers = test::decisive_numbers(test::magnitudes_of(table));
    numbers.insert(numbers.end(), {std::numeric_limits<float>::infinity(), -0.0F, 0.0F, 1e-45F});
    const std::size_t count = numbers.size();
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      const Tensor x = Tensor::from<float>(device, {1, count}, numbers).to(dtype);
      const Tensor rounded = on_grid(x, whole(1, count, kPerTensor), scale_of_one(), format);
      const std::vector<double> actual = rounded.to_vector();
      for (std::size_t i = 0; i < count; ++i) {
        const float expected = f32_from_fp8(format, fp8_from_f32(format, numbers[i]));
        ASSERT_EQ(actual[i], static_cast<double>(expected)) << numbers[i];
        ASSERT_EQ(std::signbit(actual[i]), std::signbit(numbers[i])) << numbers[i];
      }
    }
  }
}

TEST_F(ScaledGrid, F64IsRoundedOnce) {
  // Just above a middle, by less than f32 can say: rounding to f32 first would make it a tie.
  const double above = 1.0625 + 0x1p-40;
  const Tensor x = Tensor::from<double>(device, {1, 1}, std::vector{above});
  const Tensor rounded = on_grid(x, whole(1, 1, kPerTensor), scale_of_one(), Fp8::kE4m3);
  EXPECT_EQ(rounded.to_vector().front(), 1.125);
}

TEST_F(ScaledGrid, NanStaysNan) {
  std::vector<float> numbers(70, 1.0F);
  numbers[random.between(0, 69)] = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from<float>(device, {7, 10}, numbers);
  for (const DType dtype : kContainers) {
    const GridPart part = whole(7, 10, any_tile());
    const Tensor y = x.to(dtype);
    const Tensor scales = scales_for(y, part, Fp8::kE4m3);
    const Tensor rounded = on_grid(y, part, scales, Fp8::kE4m3);
    const Tensor back = unpack_codes(pack_codes(rounded, part, scales, Fp8::kE4m3), part, scales,
                                     Fp8::kE4m3, dtype);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_EQ(std::isnan(rounded.to_vector()[i]), std::isnan(numbers[i]));
      EXPECT_EQ(std::isnan(back.to_vector()[i]), std::isnan(numbers[i]));
    }
  }
}

TEST_F(ScaledGrid, EachTileByItsOwnScale) {
  for (int round = 0; round < 10; ++round) {
    const std::size_t rows = random.between(1, 300);
    const std::size_t columns = random.between(1, 300);
    const GridPart part = whole(rows, columns, any_tile());
    const Tensor x = random.tensor(device, {rows, columns}, DType::kF32, 1e-3);
    const Tensor scales = scales_for(x, part, Fp8::kE4m3);
    const std::vector<float> amax = amax_of_tiles(x.span<float>(), part.whole);
    ASSERT_EQ(scales.numel(), amax.size());
    for (std::size_t t = 0; t < amax.size(); ++t) {
      ASSERT_EQ(scales.data<float>()[t], power_of_two_scale(amax[t], Fp8::kE4m3));
    }
    const Tensor rounded = on_grid(x, part, scales, Fp8::kE4m3);
    for (std::size_t i = 0; i < rows * columns; ++i) {
      const float scale = scales.data<float>()[part.whole.tile_of(i / columns, i % columns)];
      const float number =
          f32_from_fp8(Fp8::kE4m3, fp8_from_f32(Fp8::kE4m3, x.data<float>()[i] * scale));
      ASSERT_EQ(rounded.data<float>()[i], number / scale);
    }
  }
}

TEST_F(ScaledGrid, PartsAreRoundedAsTheWhole) {
  const std::size_t rows = random.between(2, 200);
  const std::size_t columns = random.between(2, 400);
  const TileShape tile = any_tile();
  const GridPart all = whole(rows, columns, tile);
  const Tensor x = random.tensor(device, {rows, columns}, DType::kF64);
  const Tensor amax = amax_of(x, all);
  const Range some_rows{random.between(0, rows / 2), random.between(rows / 2 + 1, rows)};
  const Range some{random.between(0, columns / 2), random.between(columns / 2 + 1, columns)};
  const GridPart part{some_rows, some, all.whole};
  const Tensor here = x.slice(0, some_rows).slice(1, some).contiguous();
  const Tensor scales = scales_for(x, all, Fp8::kE5m2);
  const Tensor expected = on_grid(x, all, scales, Fp8::kE5m2).slice(0, some_rows).slice(1, some);
  EXPECT_TRUE(test::all_equal(on_grid(here, part, scales, Fp8::kE5m2), expected.contiguous()));
  const Tensor part_amax = amax_of(here, part);
  for (std::size_t t = 0; t < amax.numel(); ++t) {
    EXPECT_LE(part_amax.data<float>()[t], amax.data<float>()[t]);
  }
}

TEST_F(ScaledGrid, WhichPartsCutTiles) {
  const TileGrid weights{512, 300, kWeightTile};
  EXPECT_FALSE((GridPart{{0, 512}, {0, 300}, weights}.cuts_tiles()));
  EXPECT_FALSE((GridPart{{128, 256}, {0, 300}, weights}.cuts_tiles()));
  EXPECT_TRUE((GridPart{{0, 64}, {0, 300}, weights}.cuts_tiles()));
  EXPECT_TRUE((GridPart{{0, 512}, {0, 170}, weights}.cuts_tiles()));
  const TileGrid tensor{512, 512, kPerTensor};
  EXPECT_FALSE((GridPart{{0, 512}, {0, 512}, tensor}.cuts_tiles()));
  EXPECT_TRUE((GridPart{{0, 256}, {0, 512}, tensor}.cuts_tiles()));
}

TEST_F(ScaledGrid, CodesTakeAByteAndComeBackExactly) {
  for (const DType dtype : kContainers) {
    for (const Fp8 format : {Fp8::kE4m3, Fp8::kE5m2}) {
      const std::size_t rows = random.between(1, 50);
      const std::size_t columns = random.between(1, 300);
      const GridPart part = whole(rows, columns, any_tile());
      const Tensor x = random.tensor(device, {rows, columns}, DType::kF64, 1e-5).to(dtype);
      const Tensor scales = scales_for(x, part, format);
      const Tensor rounded = on_grid(x, part, scales, format);
      const Tensor codes = pack_codes(rounded, part, scales, format);
      EXPECT_EQ(codes.nbytes(), rows * ((columns + 3) / 4 * 4));
      EXPECT_TRUE(test::all_equal(unpack_codes(codes, part, scales, format, dtype), rounded));
      EXPECT_TRUE(test::all_equal(on_grid(rounded, part, scales_for(rounded, part, format), format),
                                  rounded))
          << "what stands on the grid stays there";
    }
  }
}

TEST_F(ScaledGrid, OtherTypesAreRefused) {
  const GridPart part = whole(1, 4, kPerTensor);
  const Tensor x = Tensor::zeros(device, {1, 4}, DType::kF16);
  EXPECT_THAT(message_of<ShapeError>([&] { static_cast<void>(amax_of(x, part)); }),
              HasSubstr("bf16"));
}

class ProductSums : public ultra::test::RandomTest {
 protected:
  static float sum_of(std::span<const float> products, Accumulator accumulator) {
    ProductSum sum(accumulator);
    while (!products.empty()) {
      const std::size_t count = std::min(products.size(), kInstructionProducts);
      sum.add(products.first(count));
      products = products.subspan(count);
    }
    return sum.value();
  }
};

TEST_F(ProductSums, FewBitsCutOffWhatLiesBelow) {
  const std::vector<float> products = {1.0F, 0x1.8p-13F, 0x1p-14F};  // the last place is 2^-13
  EXPECT_EQ(sum_of(products, Accumulator::kFewBits), 1.0F + 0x1p-13F);
  EXPECT_EQ(sum_of(products, Accumulator::kF32), 1.0F + 0x1.8p-13F + 0x1p-14F);
}

TEST_F(ProductSums, ALongSumOfFewBitsStandsStill) {
  const std::vector<float> ones(40000, 1.0F);
  EXPECT_EQ(sum_of(ones, Accumulator::kF32), 40000.0F);
  // From 2^14 on the last place is 2, and a product of 1 is cut off.
  EXPECT_EQ(sum_of(ones, Accumulator::kFewBits), 16384.0F);
}

TEST_F(ProductSums, WhatIsNotFiniteIsNotHidden) {
  for (const Accumulator accumulator : {Accumulator::kF32, Accumulator::kFewBits}) {
    const std::vector<float> products = {1.0F, std::numeric_limits<float>::quiet_NaN()};
    EXPECT_TRUE(std::isnan(sum_of(products, accumulator)));
    const float infinite = sum_of(std::vector{std::numeric_limits<float>::infinity()}, accumulator);
    EXPECT_FALSE(std::isfinite(infinite));
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
