// What each rung of adamw changes, in counters; and that it is the update of common/ops.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "chapters/09_kernels/memory_bound/adamw_ladder.hpp"
#include "common/ops/adamw.hpp"
#include "kernels/simt/buffer.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace adamw_ladder_test {

using simt::AccessKind;

class AdamWLadder : public test::LadderTest {
 protected:
  AdamWLadder() : LadderTest("adamw") {}
};

TEST_F(AdamWLadder, UnfusedMoves64BytesPerParameter) {
  const simt::Report report = counters_of("unfused", {4, 300});
  EXPECT_EQ(bytes_asked(report), 64.0 * 4 * 300);
  EXPECT_EQ(report.launches.size(), 6U * 4);
}

TEST_F(AdamWLadder, FusedMovesTheLeast) {
  const double least = ladder().cost({4, 300}).least_bytes;
  for (const char* const rung : {"fused", "vectorised", "multi_tensor"}) {
    EXPECT_EQ(bytes_asked(counters_of(rung, {4, 300})), least) << rung;
  }
  EXPECT_EQ(least, 28.0 * 4 * 300);
  EXPECT_EQ(counters_of("fused", {4, 300}).launches.size(), 4U);
}

// One tensor has the average length: here, whole warps of vectors.
TEST_F(AdamWLadder, VectorisedNeedsAQuarterOfTheRequests) {
  const Sizes sizes = {1, 2048};
  const simt::Report fused = counters_of("fused", sizes);
  for (const char* const rung : {"vectorised", "multi_tensor"}) {
    SCOPED_TRACE(rung);
    const simt::Report report = counters_of(rung, sizes);
    for (const AccessKind kind : {AccessKind::kGlobalLoad, AccessKind::kGlobalStore}) {
      EXPECT_EQ(4 * report.total(kind).requests, fused.total(kind).requests);
      EXPECT_EQ(report.total(kind).sectors, fused.total(kind).sectors);
    }
    EXPECT_EQ(bytes_moved(report), ladder().cost(sizes).least_bytes);
  }
}

TEST_F(AdamWLadder, MultiTensorLaunchesOncePer64Tensors) {
  EXPECT_EQ(counters_of("multi_tensor", {64, 9}).launches.size(), 1U);
  EXPECT_EQ(counters_of("multi_tensor", {65, 9}).launches.size(), 2U);
  EXPECT_EQ(counters_of("multi_tensor", {3, 9000}).launches.size(), 1U);
}

class AdamWOfOps : public test::RandomTest {
 protected:
  // Magnitudes of normal numbers, all of one sign: then no terms of the update cancel.
  std::vector<float> draw(float sign) {
    std::vector<float> values(500);
    for (float& value : values) {
      value = sign * static_cast<float>(std::abs(random.normal()));
    }
    return values;
  }

  Tensor tensor(const std::vector<float>& values) {
    return Tensor::from<double>(device, {values.size()},
                                std::vector<double>(values.begin(), values.end()));
  }

  // At most 12 roundings of the kernel (adamw_ladder.cpp), and those of 6 constants.
  static void expect_near(const std::vector<float>& found, const Tensor& expected) {
    const std::vector<double> values = expected.to_vector();
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(double{found[i]}, values[i], rounding_of(18) * std::abs(values[i])) << i;
    }
  }
};

TEST_F(AdamWOfOps, IsTheUpdateOfTheKernels) {
  using Floats = simt::Buffer<float, simt::Executor::kFast>;
  const std::vector<float> values = draw(-1.0F);
  const std::vector<float> gradients = draw(1.0F);
  const std::vector<float> first = draw(1.0F);
  const std::vector<float> second = draw(1.0F);
  const ops::AdamWStep step{.weight_decay = 0.3, .gradient_scale = 0.25, .step = 7};

  const Tensor value = tensor(values);
  const Tensor first_moment = tensor(first);
  const Tensor second_moment = tensor(second);
  ops::adamw_into(value, tensor(gradients), first_moment, second_moment, step);

  Floats value_buffer("value", values);
  Floats gradient_buffer("gradient", gradients);
  Floats first_buffer("first moment", first);
  Floats second_buffer("second moment", second);
  const kernels::adamw::Tensor updated{.value = value_buffer.data(),
                                       .gradient = gradient_buffer.data(),
                                       .first_moment = first_buffer.data(),
                                       .second_moment = second_buffer.data(),
                                       .n = static_cast<int>(values.size())};
  const kernels::adamw::Problem problem{
      .count = 1, .tensors = &updated, .constants = kernel_constants(step), .scratch = nullptr};
  kernels::adamw::fused<simt::Executor::kFast>(problem, {});
  expect_near(value_buffer.download(), value);
  expect_near(first_buffer.download(), first_moment);
  expect_near(second_buffer.download(), second_moment);
}

}  // namespace adamw_ladder_test
}  // namespace ultra::ladders
