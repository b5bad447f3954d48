// What the rung of attention_backward_bf16 moves, in counters, and the corners of its shapes.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

constexpr std::uint64_t kFull = 4;  // an even seed: no causal mask
constexpr std::uint64_t kCausal = 1;
constexpr std::uint64_t kFullLarge = 2;
constexpr std::uint64_t kCausalLarge = 3;

class AttentionBackwardBf16Ladder : public ::testing::Test {
 protected:
  simt::Report counters_of(const Sizes& sizes, std::uint64_t seed) {
    return test::expect_right(*ladder_, 1, {.sizes = sizes, .seed = seed}).report;
  }

  std::unique_ptr<Ladder> ladder_ = test::find_ladder("attention_backward_bf16");
};

TEST_F(AttentionBackwardBf16Ladder, StoresEachGradientOnceWithoutAtomics) {
  const simt::Report report = counters_of({1, 1, 2, 128, 64}, kCausal);
  EXPECT_EQ(report.total(AccessKind::kGlobalAtomic).requests, 0U);
  // d_q of two heads, d_k and d_v of one in bf16; delta of two in fp32.
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).bytes, 4 * 128 * 64 * 2 + 2 * 128 * 4);
}

TEST_F(AttentionBackwardBf16Ladder, WeightsStayInRegisters) {
  for (const int head_dim : {64, 128}) {
    const simt::Report report = counters_of({1, 1, 1, 128, head_dim}, kFull);
    // Shared memory is written by copies from global memory alone: each kernel's own 128 rows of two
    // tensors, and 128 columns of two.
    EXPECT_EQ(report.total(AccessKind::kSharedStore).bytes,
              std::uint64_t{2} * 4 * 128 * 2 * static_cast<std::uint64_t>(head_dim));
    for (const AccessKind kind : {AccessKind::kSharedLoad, AccessKind::kSharedStore}) {
      EXPECT_EQ(report.total(kind).wavefronts, report.total(kind).ideal_wavefronts)
          << simt::to_table(report);
    }
  }
}

TEST_F(AttentionBackwardBf16Ladder, CornersAreRight) {
  const std::vector<Sizes> corners = {{2, 1, 1, 1, 8},   {1, 1, 1, 1, 128},  {3, 2, 1, 65, 16},
                                      {2, 1, 5, 13, 64}, {1, 2, 2, 40, 104}, {1, 1, 2, 129, 128}};
  for (const Sizes& sizes : corners) {
    for (const std::uint64_t seed : {kFullLarge, kCausalLarge}) {
      test::expect_right(*ladder_, 1, {.sizes = sizes, .seed = seed, .side = simt::Side::kBare});
    }
  }
}

TEST_F(AttentionBackwardBf16Ladder, CostIsOfTheCausalHalf) {
  const Cost cost = ladder_->cost({1, 2, 3, 10, 8});
  EXPECT_EQ(cost.operations, 10.0 * 6.0 * 55.0 * 8.0);
  EXPECT_EQ(cost.least_bytes, 2.0 * (4.0 * 6.0 * 80.0 + 4.0 * 2.0 * 80.0) + 4.0 * 60.0);
}

}  // namespace
}  // namespace ultra::ladders
