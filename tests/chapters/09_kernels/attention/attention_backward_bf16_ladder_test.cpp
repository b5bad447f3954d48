// What the rung of attention_backward_bf16 moves, in counters.

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/chapters/09_kernels/attention/attention_fixture.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class AttentionBackwardBf16Ladder : public AttentionLadderTest {
 protected:
  AttentionBackwardBf16Ladder() : AttentionLadderTest("attention_backward_bf16") {}
};

TEST_F(AttentionBackwardBf16Ladder, StoresEachGradientOnceWithoutAtomics) {
  const simt::Report report = counters_of("tensor_cores", {1, 1, 2, 128, 64}, kCausal);
  EXPECT_EQ(report.total(AccessKind::kGlobalAtomic).requests, 0U);
  // d_q of two heads, d_k and d_v of one in bf16; delta of two in fp32.
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).bytes, 4 * 128 * 64 * 2 + 2 * 128 * 4);
}

TEST_F(AttentionBackwardBf16Ladder, WeightsStayInRegisters) {
  for (const int head_dim : {64, 128}) {
    const simt::Report report = counters_of("tensor_cores", {1, 1, 1, 128, head_dim}, kFull);
    // Shared memory is written by copies from global memory alone: each kernel's own 128 rows of
    // two tensors, and 128 columns of two.
    EXPECT_EQ(report.total(AccessKind::kSharedStore).bytes,
              std::uint64_t{2} * 4 * 128 * 2 * static_cast<std::uint64_t>(head_dim));
  }
}

}  // namespace
}  // namespace ultra::ladders
