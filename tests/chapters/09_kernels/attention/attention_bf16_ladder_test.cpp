// What each rung of attention_bf16 changes, in counters, and the corners of its shapes.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "build_config.hpp"
#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

constexpr std::uint64_t kFull = 4;  // an even seed: no causal mask
constexpr std::uint64_t kCausal = 1;
constexpr std::uint64_t kCausalLarge = 3;
constexpr std::uint64_t kHeadDim = 64;

class AttentionBf16Ladder : public ::testing::Test {
 protected:
  simt::Report counters_of(const char* rung, const Sizes& sizes, std::uint64_t seed) {
    return test::expect_right(*ladder_, test::find_rung(*ladder_, rung),
                              {.sizes = sizes, .seed = seed})
        .report;
  }

  // All but those for Hopper alone.
  [[nodiscard]] std::vector<RungInfo> emulated_rungs() const {
    const auto all = ladder_->rungs();
    std::vector<RungInfo> rungs(all.begin(), all.end());
    std::erase_if(rungs, [](const RungInfo& rung) { return rung.needs == Needs::kHopper; });
    return rungs;
  }

  std::unique_ptr<Ladder> ladder_ = test::find_ladder("attention_bf16");
};

TEST_F(AttentionBf16Ladder, LoadsHalfTheBytesOfFp32AndSkipsWhatIsMasked) {
  // Tiles of 64 rows, 2 bytes an element. 256 queries are two blocks; of 2 x 4 tiles of keys, the causal
  // mask leaves 2 + 4.
  constexpr std::uint64_t kTile = 2 * 64 * kHeadDim;
  const Sizes sizes = {1, 1, 1, 256, kHeadDim};
  for (const RungInfo& rung : emulated_rungs()) {
    const auto loaded = [&](std::uint64_t seed) {
      return counters_of(rung.name.c_str(), sizes, seed).total(AccessKind::kGlobalLoad).bytes;
    };
    EXPECT_EQ(loaded(kFull), kTile * (4 + 2 * 8)) << rung.name;
    EXPECT_EQ(loaded(kCausal), kTile * (4 + 2 * 6)) << rung.name;
  }
}

TEST_F(AttentionBf16Ladder, StoresOnlyOutputs) {
  const Sizes sizes = {1, 1, 1, 128, kHeadDim};
  for (const RungInfo& rung : emulated_rungs()) {
    const simt::Report report = counters_of(rung.name.c_str(), sizes, kCausal);
    EXPECT_EQ(report.total(AccessKind::kGlobalStore).bytes, 128 * (2 * kHeadDim + 4)) << rung.name;
  }
}

TEST_F(AttentionBf16Ladder, PlainRowsBeginInOneBank) {
  for (const int head_dim : {64, 128}) {
    const simt::Report report = counters_of("tensor_cores", {1, 1, 1, 128, head_dim}, kFull);
    for (const simt::Site& site : report.sites) {
      if (site.kind == AccessKind::kSharedLoad) {
        // Pairs of queries or keys, 4 bytes: 4 words of each of 8 rows. Single values, 2 bytes: 4 words of
        // each of 4 rows.
        EXPECT_EQ(site.wavefronts_per_request(), site.size == 4 ? 8.0 : 4.0) << site.line;
        EXPECT_EQ(site.ideal_wavefronts, site.requests) << site.line;
      }
    }
  }
}

TEST_F(AttentionBf16Ladder, SwizzledRowsDoNot) {
  for (const int head_dim : {64, 128}) {
    for (const char* const rung : {"swizzled", "pipelined"}) {
      const simt::Report report = counters_of(rung, {1, 1, 1, 128, head_dim}, kFull);
      for (const AccessKind kind : {AccessKind::kSharedLoad, AccessKind::kSharedStore}) {
        EXPECT_EQ(report.total(kind).wavefronts, report.total(kind).ideal_wavefronts)
            << rung << '\n'
            << simt::to_table(report);
      }
    }
  }
}

TEST_F(AttentionBf16Ladder, FourMatricesAreLoadedAtOnce) {
  // D = 64, one tile of 64 keys for each of two, 4 warps. Queries: 2 tiles of 16 rows in 4 steps of 16
  // columns; keys and values: 4 x 4 squares of 16. Each is one request; rung 1 makes 4 of 4 bytes for a
  // square of queries or keys, and 8 of 2 bytes for one of values.
  constexpr std::uint64_t kTimes = 2 * 4;
  const Sizes sizes = {1, 1, 1, 128, kHeadDim};
  const auto requests = [&](const char* rung) {
    return counters_of(rung, sizes, kFull).total(AccessKind::kSharedLoad).requests;
  };
  EXPECT_EQ(requests("swizzled"), kTimes * (2 * 4 + 16 + 16));
  EXPECT_EQ(requests("tensor_cores"), kTimes * (4 * (2 * 4) + 4 * 16 + 8 * 16));
}

TEST_F(AttentionBf16Ladder, CornersAreRight) {
  const std::vector<Sizes> corners = {{2, 1, 1, 1, 8},   {1, 1, 1, 1, 128},  {3, 2, 1, 65, 16},
                                      {1, 1, 5, 27, 64}, {1, 2, 2, 40, 104}, {1, 1, 2, 129, 128}};
  for (const RungInfo& rung : emulated_rungs()) {
    for (const Sizes& sizes : corners) {
      for (const std::uint64_t seed : {kFull, kCausalLarge}) {
        test::expect_right(*ladder_, rung.number,
                           {.sizes = sizes, .seed = seed, .side = simt::Side::kBare});
      }
    }
  }
}

TEST_F(AttentionBf16Ladder, RefusalSaysWhy) {
  for (const RungInfo& rung : emulated_rungs()) {
    EXPECT_EQ(ladder_->refusal(rung.number, {1, 1, 1, 8, 20}, simt::Side::kBare),
              "head_dim is 20, expected a multiple of 8, at most 128");
    EXPECT_EQ(ladder_->refusal(rung.number, {1, 1, 1, 8, 120}, simt::Side::kBare), "");
  }
}

TEST_F(AttentionBf16Ladder, WarpgroupsNeedHopperAndRowsOfSixteenBytes) {
  const int rung = test::find_rung(*ladder_, "warpgroups");
  EXPECT_NE(ladder_->refusal(rung, {1, 1, 1, 8, 64}, simt::Side::kBare), "");
  if (build::kHasCuda) {
    EXPECT_EQ(ladder_->refusal(rung, {1, 1, 1, 8, 20}, simt::Side::kGpu),
              "head_dim is 20, expected a multiple of 8, at most 128");
  }
}

TEST_F(AttentionBf16Ladder, CostIsOfTheCausalHalf) {
  const Cost cost = ladder_->cost({1, 2, 3, 10, 8});
  EXPECT_EQ(cost.operations, 4.0 * 6.0 * 55.0 * 8.0);
  EXPECT_EQ(cost.least_bytes, 2.0 * (2.0 * 6.0 * 80.0 + 2.0 * 2.0 * 80.0) + 4.0 * 60.0);
}

}  // namespace
}  // namespace ultra::ladders
