// Every rung of every ladder on a GPU computes what an f64 loop computes.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/device/device_info.hpp"
#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

class RungsOnGpu : public test::RandomTest {
 protected:
  void SetUp() override {
    if (kernels::list_devices().empty()) {
      GTEST_SKIP() << "no GPU on this machine";
    }
  }

  // Each rung of a ladder on all sizes that it does not refuse.
  static void expect_right(const Ladder& ladder, const std::vector<Sizes>& all_sizes,
                           const std::vector<std::uint64_t>& seeds) {
    for (const RungInfo& rung : ladder.rungs()) {
      for (const Sizes& sizes : all_sizes) {
        expect_rung_right(ladder, rung.number, sizes, seeds);
      }
    }
  }

  static void expect_rung_right(const Ladder& ladder, int rung, const Sizes& sizes,
                                const std::vector<std::uint64_t>& seeds) {
    if (ladder.refusal(rung, sizes, simt::Side::kGpu).empty()) {
      for (const std::uint64_t one : seeds) {
        test::expect_right(ladder, rung, {.sizes = sizes, .seed = one, .side = simt::Side::kGpu});
      }
    }
  }
};

TEST_F(RungsOnGpu, AreRightForAnyShape) {
  for (const auto& ladder : all_ladders()) {
    for (const RungInfo& rung : ladder->rungs()) {
      Sizes sizes = ladder->default_sizes(simt::Side::kInstrumented);
      for (int draw = 0; draw < 6; ++draw) {
        expect_rung_right(*ladder, rung.number, sizes, {seed});
        sizes = test::random_sizes(*ladder, random);
      }
    }
  }
}

// Where the sizes of tiles show: one query, ends inside a tile of keys or of queries, rings of
// stages that go round several times, heads that share keys, rows that are shorter than a tile's.
TEST_F(RungsOnGpu, OfAttentionAreRightWhereTilesEndAndRingsGoRound) {
  constexpr std::uint64_t kFull = 4;  // an even seed: no causal mask
  constexpr std::uint64_t kCausal = 5;
  expect_right(*test::find_ladder("attention_bf16"),
               {{1, 1, 1, 1, 64},
                {1, 1, 1, 1, 128},
                {2, 3, 1, 127, 128},
                {1, 2, 4, 129, 128},
                {1, 1, 2, 193, 64},
                {2, 1, 2, 257, 40},
                {1, 2, 1, 640, 104},
                {2, 2, 2, 1100, 128},
                {2, 2, 2, 1100, 64}},
               {kFull, kCausal});
}

// Edges inside a tile, depths that end inside a stage and go round the ring, more tiles than
// multiprocessors, an odd number of tiles for clusters.
TEST_F(RungsOnGpu, OfProductsAreRightForRaggedMultiplesOfEight) {
  expect_right(*test::find_ladder("matmul_bf16"),
               {{1, 8, 8}, {64, 64, 64}, {136, 264, 72}, {257, 520, 456}, {4101, 1288, 200}}, {5});
}

}  // namespace
}  // namespace ultra::ladders
