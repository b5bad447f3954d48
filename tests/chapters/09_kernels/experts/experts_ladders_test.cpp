// What the rungs of the ladders of experts change, in counters; and how a router's decisions are
// drawn.

#include <set>

#include "chapters/09_kernels/experts/routing.hpp"
#include "kernels/ladders/tokens/token_permutation/token_permutation.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ladders {
namespace experts_ladders_test {

using simt::AccessKind;
using testing::HasSubstr;

TEST(Routing, ATokensExpertsDiffer) {
  const std::vector<int> experts = draw_experts({.tokens = 100, .top_k = 3, .experts = 5}, 7);
  ASSERT_EQ(experts.size(), 300U);
  for (std::size_t token = 0; token < 100; ++token) {
    const auto first = experts.begin() + static_cast<std::ptrdiff_t>(3 * token);
    EXPECT_EQ(std::set<int>(first, first + 3).size(), 3U);
  }
  EXPECT_EQ(*std::ranges::min_element(experts), 0);
  EXPECT_EQ(*std::ranges::max_element(experts), 4);
}

TEST(Routing, BeginsAreSumsOfCounts) {
  EXPECT_THAT(begins_of({2, 0, 2, 3, 2}, 5), testing::ElementsAre(0, 1, 1, 4, 5, 5));
}

class TokenPermutationLadder : public test::LadderTest {
 protected:
  TokenPermutationLadder() : LadderTest("token_permutation", {512, 256, 8, 4}) {}

  // Sectors of a token's row.
  static constexpr std::uint64_t kRow = 2 * 256 / 32;
};

TEST_F(TokenPermutationLadder, OnlyTheFirstRungNeedsAtomics) {
  EXPECT_EQ(counters_of("atomics").total(AccessKind::kGlobalAtomic).lanes, 2U * 512 * 4);
  for (const char* rung : {"stable", "read_once"}) {
    EXPECT_EQ(counters_of(rung).total(AccessKind::kGlobalAtomic).requests, 0U) << rung;
  }
}

TEST_F(TokenPermutationLadder, ReadingOnceSavesTheOtherReads) {
  const auto loads = [&](const char* rung) {
    return counters_of(rung).total(AccessKind::kGlobalLoad).bytes;
  };
  // Beside rows, rung 2 loads a place for each element, rung 3 one for each access of 16 bytes.
  const std::uint64_t elements = 512U * 4 * 256;
  EXPECT_EQ(loads("stable") - loads("read_once"),
            elements * 2 * 3 / 4 + elements * 4 - elements / 8 * 4);
}

TEST_F(TokenPermutationLadder, StablePlacesKeepTheOrderOfTheTokens) {
  constexpr int kTokens = 700;
  constexpr int kExperts = 5;
  const std::vector<int> experts =
      draw_experts({.tokens = kTokens, .top_k = 2, .experts = kExperts}, 3);
  std::vector<int> begins(kExperts + 1);
  std::vector<int> place(experts.size());
  std::vector<int> scratch(kernels::token_permutation::scratch_size(2 * kTokens, kExperts));
  const std::vector<simt::bf16> x(kTokens, simt::bf16(1.0F));
  std::vector<simt::bf16> permuted(experts.size());
  kernels::token_permutation::stable<simt::Executor::kFast>({.tokens = kTokens,
                                                             .hidden = 1,
                                                             .experts = kExperts,
                                                             .top_k = 2,
                                                             .experts_of = experts.data(),
                                                             .x = x.data(),
                                                             .begins = begins.data(),
                                                             .place = place.data(),
                                                             .permuted = permuted.data(),
                                                             .scratch = scratch.data()},
                                                            {});
  std::vector<int> next = begins_of(experts, kExperts);
  for (std::size_t slot = 0; slot < experts.size(); ++slot) {
    EXPECT_EQ(place[slot], next[static_cast<std::size_t>(experts[slot])]++) << slot;
  }
}

TEST_F(TokenPermutationLadder, AccessesAreOfSixteenBytes) {
  EXPECT_GT(counters_of("read_once").total(AccessKind::kGlobalStore).sectors_per_request(), 12.0);
  EXPECT_EQ(counters_of("read_once").total(AccessKind::kGlobalStore).sectors -
                counters_of("stable").total(AccessKind::kGlobalStore).sectors,
            0U)
      << "each row is stored as often, " << kRow << " sectors each";
}

TEST_F(TokenPermutationLadder, CornersAreRight) {
  for (const std::string& rung : emulated_rungs()) {
    for (const Sizes& sizes : std::vector<Sizes>{
             {1, 1, 1, 1}, {255, 8, 2, 1}, {257, 3, 256, 1}, {300, 8, 256, 8}, {64, 40, 8, 8}}) {
      expect_right(rung, {.sizes = sizes});
    }
  }
}

TEST_F(TokenPermutationLadder, ExpertsThatCannotBe) {
  EXPECT_THAT(refusal_of("atomics", {4, 8, 257, 1}), HasSubstr("257 experts"));
  EXPECT_THAT(refusal_of("stable", {4, 8, 2, 3}), HasSubstr("expected 3 to 256"));
}

class GroupedMatmulLadder : public test::LadderTest {
 protected:
  GroupedMatmulLadder() : LadderTest("grouped_matmul", {6, 300, 136, 72}) {}
};

TEST_F(GroupedMatmulLadder, OneLaunchForAllExperts) {
  EXPECT_GT(counters_of("launch_each").launches.size(), 4U);
  EXPECT_EQ(counters_of("one_launch").launches.size(), 1U);
}

// The same tiles, and beside them the begins: at most 7 loads of each of 8 warps of 2 x 9 blocks.
TEST_F(GroupedMatmulLadder, LookingUpTilesCostsAFewLoads) {
  const std::uint64_t each = counters_of("launch_each").total(AccessKind::kGlobalLoad).requests;
  const std::uint64_t one = counters_of("one_launch").total(AccessKind::kGlobalLoad).requests;
  EXPECT_GT(one, each);
  EXPECT_LE(one - each, 7U * 8 * 2 * 9);
}

TEST_F(GroupedMatmulLadder, HasNoBankConflicts) {
  expect_no_bank_conflicts(counters_of("one_launch", {2, 256, 128, 128}));
}

TEST_F(GroupedMatmulLadder, ExpertsWithoutTokensAndTilesThatAreFull) {
  for (const std::string& rung : emulated_rungs()) {
    for (const Sizes& sizes :
         std::vector<Sizes>{{64, 3, 8, 8}, {1, 256, 128, 64}, {2, 129, 9, 200}}) {
      expect_right(rung, {.sizes = sizes});
    }
  }
}

TEST_F(GroupedMatmulLadder, ARaggedDepthIsRefused) {
  EXPECT_THAT(refusal_of("one_launch", {2, 4, 4, 12}), HasSubstr("multiple of 8"));
}

}  // namespace experts_ladders_test
}  // namespace ultra::ladders
