// What rungs over elements change, in counters.

#include "chapters/09_kernels/memory_bound/adamw_ladder.hpp"
#include "common/ops/adamw.hpp"
#include "kernels/simt/buffer.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"

// What each rung of adamw changes, in counters; and that it is the update of common/ops.
namespace ultra::ladders::adamw_ladder_test {

using simt::AccessKind;

using AdamWLadder = test::LadderOf<"adamw">;

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

}  // namespace ultra::ladders::adamw_ladder_test

// What the rungs of the bf16 ladders change, in counters.
namespace ultra::ladders::bf16_ladders_test {

class RmsNormBf16Ladder : public test::LadderTest {
 protected:
  RmsNormBf16Ladder() : LadderTest("rms_norm_bf16", {4, 512}) {}

  // What each row asks for beside the least: its weights, which are counted once.
  static constexpr double kWeights = 2.0 * 512;
};

TEST_F(RmsNormBf16Ladder, AWarpReadsBackWhatItHasStored) {
  const double h = 2.0 * 4 * 512;
  EXPECT_EQ(bytes_asked(counters_of("warp_per_row")), least_bytes() + h + 3 * kWeights);
}

TEST_F(RmsNormBf16Ladder, ABlockDoesNot) {
  const simt::Report report = counters_of("in_registers");
  EXPECT_EQ(bytes_asked(report), least_bytes() + 3 * kWeights);
  EXPECT_EQ(report.total(simt::AccessKind::kGlobalLoad).sectors_per_request(), 16.0);
}

using AdamWBf16Ladder = test::LadderOf<"adamw_bf16", 4096>;

TEST_F(AdamWBf16Ladder, RoundingApartReadsTheMasterCopyAgain) {
  EXPECT_EQ(bytes_moved(counters_of("two_kernels")), least_bytes() + 4.0 * 4096);
}

TEST_F(AdamWBf16Ladder, FusedMovesTheLeastInFewRequests) {
  const simt::Report report = counters_of("fused");
  EXPECT_EQ(bytes_moved(report), least_bytes());
  EXPECT_EQ(report.total(simt::AccessKind::kGlobalLoad).requests, 4U * 4096 / 4 / 32);
}

}  // namespace ultra::ladders::bf16_ladders_test

// What each rung of swiglu and of swiglu_backward changes, in counters: sectors are counted in
// units of one matrix read or written once.
namespace ultra::ladders::swiglu_ladder_test {
constexpr std::uint64_t kTokens = 8;
constexpr std::uint64_t kFfn = 256;
constexpr std::uint64_t kMatrix = kTokens * kFfn / 8;  // sectors

// Matrices that a ladder's rungs load and store.
struct Matrices {
  const char* ladder;
  std::uint64_t loads;
  std::uint64_t stores;
  std::uint64_t loads_of_two_kernels;
  std::uint64_t stores_of_two_kernels;
};

class SwigluLadders : public test::LadderTest, public ::testing::WithParamInterface<Matrices> {
 protected:
  SwigluLadders() : LadderTest(GetParam().ladder, {kTokens, kFfn}) {}

  void expect_the_least(const simt::Report& report) {
    expect_sectors(report, GetParam().loads * kMatrix, GetParam().stores * kMatrix);
    EXPECT_EQ(bytes_asked(report), least_bytes());
  }
};

INSTANTIATE_TEST_SUITE_P(All, SwigluLadders,
                         ::testing::Values(
                             // In two kernels: gate; what silu left, and up.
                             Matrices{"swiglu", 2, 1, 3, 2},
                             // In two kernels: d_product and gate for each gradient; up.
                             Matrices{"swiglu_backward", 3, 2, 5, 2}),
                         [](const auto& matrices) { return matrices.param.ladder; });

TEST_P(SwigluLadders, TwoKernelsMoveMore) {
  expect_sectors(counters_of("two_kernels"), GetParam().loads_of_two_kernels * kMatrix,
                 GetParam().stores_of_two_kernels * kMatrix);
}

TEST_P(SwigluLadders, FusedMovesTheLeast) {
  const simt::Report report = counters_of("fused");
  expect_the_least(report);
  EXPECT_EQ(report.total(simt::AccessKind::kGlobalLoad).sectors_per_request(), 4.0);
}

TEST_P(SwigluLadders, VectorsTakeAQuarterOfTheRequests) {
  const simt::Report report = counters_of("vectorised");
  expect_the_least(report);
  expect_sectors_per_request(report, 16.0, 16.0);
}

}  // namespace ultra::ladders::swiglu_ladder_test
