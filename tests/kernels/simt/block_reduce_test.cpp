// Sums over a block, and accesses of several elements, against their definitions.
// Covers: kernels/simt/block_reduce.cuh kernels/simt/pack.cuh

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/simt/block_reduce.cuh"
#include "kernels/simt/pack.cuh"
#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace {

// Every thread's sum of `values`, of which each thread has one per round.
__global__ void block_sum_kernel(const float* values, float* sums, int rounds) {
  __shared__ float warp_sums[2][kMostWarps];
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  for (int round = 0; round < rounds; ++round) {
    const float value = ldg(&values[round * threads + thread]);
    stg(&sums[round * threads + thread], block_sum(value, warp_sums[round % 2]));
  }
}

TEST(BlockSum, EveryThreadHasTheSumInEveryRound) {
  constexpr int kRounds = 5;
  for (const int threads : {32, 64, 96, 1024}) {
    const std::vector<float> values = whole_numbers<float>(kRounds * threads);
    const Buffer<float> given("given", values);
    Buffer<float> sums("sums", values.size());
    launch(block_sum_kernel, {.name = "block_sum", .block = {.x = static_cast<unsigned>(threads)}},
           given.data(), sums.data(), kRounds);
    const std::vector<float> found = sums.download();
    for (int round = 0; round < kRounds; ++round) {
      const auto first = values.begin() + round * threads;
      const float expected = std::accumulate(first, first + threads, 0.0F);
      for (int thread = 0; thread < threads; ++thread) {
        ASSERT_EQ(at(found, round * threads + thread), expected) << threads << " threads";
      }
    }
  }
}

__global__ void copy_packs_kernel(const float* from, float* to) {
  using Floats = Pack<float, 4>;
  const Floats some = ldg(&reinterpret_cast<const Floats*>(from)[threadIdx.x]);
  stg(&reinterpret_cast<Floats*>(to)[threadIdx.x], some);
}

TEST(Pack, MovesItsElementsInOneAccess) {
  static_assert(sizeof(Pack<float, 4>) == 16 && alignof(Pack<float, 4>) == 16);
  static_assert(sizeof(Pack<bf16, 8>) == 16 && alignof(Pack<bf16, 8>) == 16);
  const std::vector<float> values = whole_numbers<float>(128);
  const Buffer<float> from("from", values);
  Buffer<float> to("to", values.size());
  const Report report = recorded(copy_packs_kernel, {.name = "copy_packs", .block = {.x = 32}},
                                 from.data(), to.data());
  EXPECT_EQ(to.download(), values);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).requests, 1U);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors, 16U);
}

TEST(Pack, RowsAreAlignedIfFourDividesTheirLength) {
  EXPECT_TRUE(has_aligned_rows(4));
  EXPECT_FALSE(has_aligned_rows(6));
  EXPECT_FALSE(has_aligned_rows(1));
}

}  // namespace
}  // namespace ultra::simt::test
