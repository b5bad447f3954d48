// Kernels compute the same in the checked and in the fast emulator, and what a plain loop computes.
//
// Covers: kernels/simt/fast_math.cuh

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/simt/fast_math.cuh"
#include "tests/kernels/simt/kernels/kernels.hpp"
#include "tests/kernels/simt/support.hpp"
#include "tests/support/nearest_number.hpp"

namespace ultra::simt::test {
namespace kernels_test {

template <typename ExecutorConstant>
class KernelsOn : public ::testing::Test {
 protected:
  static constexpr Executor kExecutorOfTest = ExecutorConstant::value;
};

using Executors = ::testing::Types<std::integral_constant<Executor, Executor::kChecked>,
                                   std::integral_constant<Executor, Executor::kFast>>;
TYPED_TEST_SUITE(KernelsOn, Executors);

TYPED_TEST(KernelsOn, Matmul) {
  constexpr Executor kTested = TestFixture::kExecutorOfTest;
  for (const MatmulKernel kernel :
       {MatmulKernel::kNaive, MatmulKernel::kCoalesced, MatmulKernel::kTiled}) {
    expect_matmul<kTested>(64, [kernel](const float* a, const float* b, float* c, int n) {
      matmul<kTested>(kernel, a, b, c, n);
    });
  }
}

TYPED_TEST(KernelsOn, TransposeOfAnyShape) {
  constexpr Executor kTested = TestFixture::kExecutorOfTest;
  for (const auto& [rows, columns] : {std::pair{1, 1}, {32, 32}, {33, 31}, {5, 100}, {64, 96}}) {
    const std::vector<float> values = whole_numbers<float>(rows * columns);
    const Buffer<float, kTested> in("in", values);
    Buffer<float, kTested> out("out", values.size());
    transpose<kTested>(TransposePadding::kOneColumn, in.data(), out.data(), rows, columns);
    const std::vector<float> result = out.download();
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        ASSERT_EQ(at(result, column * rows + row), at(values, row * columns + column));
      }
    }
  }
}

TYPED_TEST(KernelsOn, RowSums) {
  constexpr Executor kTested = TestFixture::kExecutorOfTest;
  for (const int columns : {1, 31, 32, 33, 128, 300}) {
    const int rows = 3;
    const std::vector<float> values = whole_numbers<float>(rows * columns);
    const Buffer<float, kTested> in("in", values);
    Buffer<float, kTested> sums("sums", std::size_t{3});
    Buffer<int, kTested> done("done", std::vector<int>{0});
    row_sums<kTested>(in.data(), sums.data(), done.data(), rows, columns);
    const std::vector<float> result = sums.download();
    for (int row = 0; row < rows; ++row) {
      float expected = 0.0F;
      for (int column = 0; column < columns; ++column) {
        expected += at(values, row * columns + column);
      }
      EXPECT_EQ(at(result, row), expected) << columns << " columns";
    }
    EXPECT_EQ(done.download(), std::vector<int>{rows});
  }
}

// Products and sums of small whole numbers are exact in float, so the order does not matter.
template <Executor executor, typename T>
void expect_tile_product(int depth) {
  std::vector<T> a;
  std::vector<T> b;
  for (const float value : whole_numbers<float>(16 * depth)) {
    a.emplace_back(value);
    b.emplace_back(3.0F - value);
  }
  const Buffer<T, executor> left("left", a);
  const Buffer<T, executor> right("right", b);
  Buffer<float, executor> d("d", std::size_t{256});
  tile_product<executor, T>(left.data(), right.data(), d.data(), depth);
  const std::vector<float> result = d.download();
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 16; ++column) {
      float expected = 0.0F;
      for (int k = 0; k < depth; ++k) {
        expected += static_cast<float>(at(a, row * depth + k)) *
                    static_cast<float>(at(b, column * depth + k));
      }
      ASSERT_EQ(at(result, row * 16 + column), expected) << row << ", " << column;
    }
  }
}

TYPED_TEST(KernelsOn, TileProduct) {
  expect_tile_product<TestFixture::kExecutorOfTest, bf16>(16);
  expect_tile_product<TestFixture::kExecutorOfTest, bf16>(48);
  expect_tile_product<TestFixture::kExecutorOfTest, half>(32);
}

TYPED_TEST(KernelsOn, ReportNamesTheLaunch) {
  constexpr Executor kTested = TestFixture::kExecutorOfTest;
  const Buffer<float, kTested> in("in", whole_numbers<float>(32 * 64));
  Buffer<float, kTested> out("out", std::size_t{32 * 64});
  Report report;
  const Queue queue{.report = &report};
  transpose<kTested>(TransposePadding::kNone, in.data(), out.data(), 32, 64, queue);
  const Launched launched{.kernel = "transpose", .grid = {.x = 2}, .block = {.x = 32, .y = 8}};
  EXPECT_EQ(report.launches, std::vector{launched});
  EXPECT_EQ(report.sites.empty(), kTested == Executor::kFast);
}

}  // namespace kernels_test
}  // namespace ultra::simt::test

// Small floats and functions of one instruction.
namespace ultra::simt::test {
namespace small_float_test {
/// All numbers of a format, and the nearest ones to all that its roundings tell apart.
template <typename T>
void expect_format(const ultra::test::SmallFormat& format, bool saturates) {
  using Bits = typename T::Bits;
  const std::vector<double> magnitudes = ultra::test::magnitudes_of(format);
  const std::size_t sign = std::size_t{1} << (format.exponent_bits + format.fraction_bits);
  for (std::size_t bits = 0; bits < magnitudes.size(); ++bits) {
    const auto exact = static_cast<float>(magnitudes[bits]);
    ASSERT_EQ(static_cast<float>(T::from_bits(static_cast<Bits>(bits))), exact) << bits;
    ASSERT_EQ(static_cast<float>(T::from_bits(static_cast<Bits>(bits | sign))), -exact) << bits;
  }
  const std::size_t too_large = magnitudes.size() - (saturates ? 1 : 0);
  for (const float x : ultra::test::decisive_numbers(magnitudes)) {
    const std::size_t code = std::min(ultra::test::nearest_code(magnitudes, double{x}), too_large);
    ASSERT_EQ(T(x).bits(), std::signbit(x) ? code | sign : code) << x;
  }
  EXPECT_EQ(T(std::numeric_limits<float>::infinity()).bits(), too_large);
  EXPECT_TRUE(std::isnan(static_cast<float>(T(std::nanf("")))));
  EXPECT_EQ(T(-std::nanf("")).bits(), sign - 1);
}

TEST(SmallFloat, IsTheNearestNumberOfItsFormat) {
  expect_format<half>(ultra::test::kFp16Table, false);
  expect_format<bf16>(ultra::test::kBf16Table, false);
  expect_format<fp8_e4m3>(ultra::test::kE4m3Table, true);
  expect_format<fp8_e5m2>(ultra::test::kE5m2Table, true);
}

// The largest numbers, infinities and CUDA's own names, by their published codes.
TEST(SmallFloat, HasThePublishedCodes) {
  EXPECT_EQ(static_cast<float>(half::from_bits(0xfc00)), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(half(65504.0F).bits(), 0x7bff);
  EXPECT_EQ(__float2bfloat16(1.0F).bits(), 0x3f80);
  EXPECT_EQ(__bfloat162float(bf16::from_bits(0x4049)), 3.140625F);
  EXPECT_EQ(static_cast<float>(fp8_e4m3::from_bits(0x7e)), 448.0F);
  EXPECT_TRUE(std::isnan(static_cast<float>(fp8_e4m3::from_bits(0x7f))));
  EXPECT_EQ(static_cast<float>(fp8_e5m2::from_bits(0x7b)), 57344.0F);
  EXPECT_EQ(static_cast<float>(fp8_e5m2::from_bits(0x7c)), std::numeric_limits<float>::infinity());
}

}  // namespace small_float_test
}  // namespace ultra::simt::test

namespace ultra::simt {
namespace small_float_test {

TEST(FastMath, PowersOfTwo) {
  for (const float x : {-125.5F, -1.0F, -0.25F, 0.0F, 0.5F, 10.0F}) {
    EXPECT_NEAR(double{exp2_flushed(x)} / std::exp2(double{x}), 1.0, 0x1p-22) << x;
  }
}

TEST(FastMath, PowersBelowTheSmallestNormalNumberAreZero) {
  EXPECT_EQ(exp2_flushed(-126.0F), 0x1p-126F);
  EXPECT_EQ(exp2_flushed(-126.5F), 0.0F);
  EXPECT_EQ(exp2_flushed(-std::numeric_limits<float>::infinity()), 0.0F);
}

}  // namespace small_float_test
}  // namespace ultra::simt
