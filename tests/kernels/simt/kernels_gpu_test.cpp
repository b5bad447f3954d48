// On a GPU, kernels compute what they compute in the emulator.

#include <gtest/gtest.h>

#include <vector>

#include "build_config.hpp"
#include "kernels/device/device_info.hpp"
#include "tests/kernels/simt/kernels/kernels.hpp"
#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace kernels_gpu_test {

class KernelsOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernels::list_devices().empty()) {
      GTEST_SKIP() << "no GPU on this machine";
    }
  }
};

// A template, so that a build without CUDA does not ask for the kernels for a GPU.
template <Executor executor>
std::vector<float> transposed(int rows, int columns) {
  if constexpr (executor != Executor::kGpu || build::kHasCuda) {
    const Buffer<float, executor> in("in", whole_numbers<float>(rows * columns));
    Buffer<float, executor> out("out", in.size());
    transpose<executor>(TransposePadding::kOneColumn, in.data(), out.data(), rows, columns);
    return out.download();
  }
  return {};
}

template <Executor executor>
std::vector<float> sums_of_rows(int rows, int columns) {
  if constexpr (executor != Executor::kGpu || build::kHasCuda) {
    const Buffer<float, executor> in("in", whole_numbers<float>(rows * columns));
    Buffer<float, executor> sums("sums", static_cast<std::size_t>(rows));
    Buffer<int, executor> done("done", std::vector<int>{0});
    row_sums<executor>(in.data(), sums.data(), done.data(), rows, columns);
    EXPECT_EQ(done.download(), std::vector<int>{rows});
    return sums.download();
  }
  return {};
}

template <Executor executor>
std::vector<float> product(MatmulKernel kernel, int n) {
  if constexpr (executor != Executor::kGpu || build::kHasCuda) {
    const Buffer<float, executor> a("a", whole_numbers<float>(n * n));
    Buffer<float, executor> c("c", a.size());
    matmul<executor>(kernel, a.data(), a.data(), c.data(), n);
    return c.download();
  }
  return {};
}

template <Executor executor>
std::vector<float> tensor_product(int depth, bool transposed) {
  if constexpr (executor != Executor::kGpu || build::kHasCuda) {
    std::vector<bf16> values;
    for (const float value : whole_numbers<float>(16 * depth)) {
      values.emplace_back(value);
    }
    const Buffer<bf16, executor> a("a", values);
    Buffer<float, executor> d("d", std::size_t{128});
    matrix_product<executor>(
        {.a = a.data(), .b = a.data(), .d = d.data(), .depth = depth, .transposed = transposed});
    return d.download();
  }
  return {};
}

TEST_F(KernelsOnGpu, MatrixProduct) {
  for (const bool transposed : {false, true}) {
    EXPECT_EQ(tensor_product<Executor::kGpu>(62, transposed),
              tensor_product<Executor::kFast>(62, transposed));
  }
}

TEST_F(KernelsOnGpu, Matmul) {
  for (const MatmulKernel kernel :
       {MatmulKernel::kNaive, MatmulKernel::kCoalesced, MatmulKernel::kTiled}) {
    EXPECT_EQ(product<Executor::kGpu>(kernel, 96), product<Executor::kFast>(kernel, 96));
  }
}

TEST_F(KernelsOnGpu, Transpose) {
  EXPECT_EQ(transposed<Executor::kGpu>(33, 70), transposed<Executor::kFast>(33, 70));
}

TEST_F(KernelsOnGpu, RowSums) {
  EXPECT_EQ(sums_of_rows<Executor::kGpu>(5, 300), sums_of_rows<Executor::kFast>(5, 300));
}

}  // namespace kernels_gpu_test
}  // namespace ultra::simt::test
