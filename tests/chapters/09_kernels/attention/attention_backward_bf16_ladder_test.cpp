// What the rungs of attention_backward_bf16 move, in counters.

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/chapters/09_kernels/attention/attention_fixture.hpp"

namespace ultra::ladders {
namespace attention_backward_bf16_ladder_test {

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

TEST_F(AttentionBackwardBf16Ladder, OneKernelAddsToEachTileOfQueriesInTurn) {
  // Two heads of queries: bytes of atomics for the sums, and for a block's number; and for each turn a
  // look and a step.
  const auto expect_atomics = [&](const Sizes& sizes, std::uint64_t seed) {
    const auto kv_heads = static_cast<std::uint64_t>(sizes[1]);
    const auto length = static_cast<std::uint64_t>(sizes[3]);
    const auto head_dim = static_cast<std::uint64_t>(sizes[4]);
    const std::uint64_t blocks = (length + 127) / 128;
    std::uint64_t turns = 0;
    std::uint64_t adds = 0;  // the first part is stored, the last one is not written back
    for (std::uint64_t tile = 0; tile < (length + 63) / 64; ++tile) {
      const std::uint64_t seen = seed == kCausal ? tile * 64 / 128 + 1 : blocks;
      turns += seen;
      adds += seen > 2 ? seen - 2 : 0;
    }
    const std::uint64_t expected =
        2 * adds * 64 * head_dim * 4 + 4 * (kv_heads * blocks + 2 * 2 * turns);
    EXPECT_EQ(counters_of("one_kernel", sizes, seed).total(AccessKind::kGlobalAtomic).bytes,
              expected);
  };
  expect_atomics({1, 1, 2, 390, 64}, kFull);
  expect_atomics({1, 1, 2, 390, 64}, kCausal);
  expect_atomics({1, 2, 1, 390, 128}, kCausal);
}

TEST_F(AttentionBackwardBf16Ladder, OneKernelFetchesQueriesOncePerBlockOfKeys) {
  // Rows of 64; one head, 384 queries in tiles of 64, three blocks of 128 keys: k and v once, q and
  // d_o for each block, of a causal problem from its own keys on. delta reads o and d_o once more.
  constexpr std::uint64_t kRow = 64 * 2;
  const auto fetched = [&](std::uint64_t seed) {
    const simt::Report report = counters_of("one_kernel", {1, 1, 1, 384, 64}, seed);
    std::uint64_t bytes = 0;
    for (const simt::Site& site : report.sites) {
      // Boxes, which are larger than any vector.
      if (site.kind == AccessKind::kGlobalLoad && site.size > 16) {
        bytes += site.bytes;
      }
    }
    return bytes;
  };
  EXPECT_EQ(fetched(kFull), 2 * 384 * kRow + 2 * 3 * 384 * kRow);
  EXPECT_EQ(fetched(kCausal), 2 * 384 * kRow + 2 * (384 + 256 + 128) * kRow);
}

TEST_F(AttentionBackwardBf16Ladder, OneKernelTakesAnyLengthAndGrouping) {
  for (const Sizes& sizes : {Sizes{2, 1, 2, 1, 8}, Sizes{1, 2, 1, 300, 128},
                             Sizes{1, 1, 3, 193, 64}, Sizes{1, 1, 1, 321, 72}}) {
    for (const std::uint64_t seed : {kFull, kCausal, kFullLarge, kCausalLarge}) {
      expect_right("one_kernel", {.sizes = sizes, .seed = seed, .executor = simt::Executor::kFast});
    }
    expect_right("one_kernel", {.sizes = sizes, .seed = kCausalLarge});
  }
}

}  // namespace attention_backward_bf16_ladder_test
}  // namespace ultra::ladders
