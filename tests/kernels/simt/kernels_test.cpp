// Kernels compute the same in the checked and in the fast emulator, and what a plain loop computes.

#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/simt/kernels/kernels.hpp"
#include "tests/kernels/simt/support.hpp"

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

TYPED_TEST(KernelsOn, ReportAddsLaunches) {
  constexpr Executor kTested = TestFixture::kExecutorOfTest;
  const Buffer<float, kTested> in("in", whole_numbers<float>(32 * 32));
  Buffer<float, kTested> out("out", in.size());
  Report once;
  transpose<kTested>(TransposePadding::kNone, in.data(), out.data(), 32, 32, {.report = &once});
  Report twice = once;
  transpose<kTested>(TransposePadding::kNone, in.data(), out.data(), 32, 32, {.report = &twice});
  EXPECT_EQ(twice.launches.size(), 2U);
  ASSERT_EQ(twice.sites.size(), once.sites.size());
  for (std::size_t i = 0; i < once.sites.size(); ++i) {
    EXPECT_EQ(twice.sites[i].requests, 2 * once.sites[i].requests);
    EXPECT_EQ(twice.sites[i].sectors, 2 * once.sites[i].sectors);
  }
}

}  // namespace kernels_test
}  // namespace ultra::simt::test
