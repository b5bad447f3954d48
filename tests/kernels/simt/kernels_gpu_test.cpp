// On a GPU, kernels compute what they compute in the emulator.

#include <gtest/gtest.h>

#include <vector>

#include "build_config.hpp"
#include "kernels/device/device_info.hpp"
#include "tests/kernels/simt/kernels/kernels.hpp"
#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace {

class KernelsOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernels::list_devices().empty()) {
      GTEST_SKIP() << "no GPU on this machine";
    }
  }
};

// A template, so that a build without CUDA does not ask for the kernels' GPU side.
template <Side side>
std::vector<float> transposed(int rows, int columns) {
  if constexpr (side != Side::kGpu || build::kHasCuda) {
    const Buffer<float, side> in("in", whole_numbers<float>(rows * columns));
    Buffer<float, side> out("out", in.size());
    transpose<side>(TransposePadding::kOneColumn, in.data(), out.data(), rows, columns);
    return out.download();
  }
  return {};
}

template <Side side>
std::vector<float> sums_of_rows(int rows, int columns) {
  if constexpr (side != Side::kGpu || build::kHasCuda) {
    const Buffer<float, side> in("in", whole_numbers<float>(rows * columns));
    Buffer<float, side> sums("sums", static_cast<std::size_t>(rows));
    Buffer<int, side> done("done", std::vector<int>{0});
    row_sums<side>(in.data(), sums.data(), done.data(), rows, columns);
    EXPECT_EQ(done.download(), std::vector<int>{rows});
    return sums.download();
  }
  return {};
}

template <Side side>
std::vector<float> product(MatmulKernel kernel, int n) {
  if constexpr (side != Side::kGpu || build::kHasCuda) {
    const Buffer<float, side> a("a", whole_numbers<float>(n * n));
    Buffer<float, side> c("c", a.size());
    matmul<side>(kernel, a.data(), a.data(), c.data(), n);
    return c.download();
  }
  return {};
}

template <Side side>
std::vector<float> tensor_product(int depth, bool transposed) {
  if constexpr (side != Side::kGpu || build::kHasCuda) {
    std::vector<bf16> values;
    for (const float value : whole_numbers<float>(16 * depth)) {
      values.emplace_back(value);
    }
    const Buffer<bf16, side> a("a", values);
    Buffer<float, side> d("d", std::size_t{128});
    matrix_product<side>(
        {.a = a.data(), .b = a.data(), .d = d.data(), .depth = depth, .transposed = transposed});
    return d.download();
  }
  return {};
}

TEST_F(KernelsOnGpu, MatrixProduct) {
  for (const bool transposed : {false, true}) {
    EXPECT_EQ(tensor_product<Side::kGpu>(62, transposed),
              tensor_product<Side::kBare>(62, transposed));
  }
}

TEST_F(KernelsOnGpu, Matmul) {
  for (const MatmulKernel kernel :
       {MatmulKernel::kNaive, MatmulKernel::kCoalesced, MatmulKernel::kTiled}) {
    EXPECT_EQ(product<Side::kGpu>(kernel, 96), product<Side::kBare>(kernel, 96));
  }
}

TEST_F(KernelsOnGpu, Transpose) {
  EXPECT_EQ(transposed<Side::kGpu>(33, 70), transposed<Side::kBare>(33, 70));
}

TEST_F(KernelsOnGpu, RowSums) {
  EXPECT_EQ(sums_of_rows<Side::kGpu>(5, 300), sums_of_rows<Side::kBare>(5, 300));
}

}  // namespace
}  // namespace ultra::simt::test
