// What the rungs of token_permutation change; and how a router's decisions are drawn.

#include <set>

#include "chapters/09_kernels/experts/routing.hpp"
#include "kernels/ladders/tokens/token_permutation/token_permutation.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders::experts_ladders_test {

using simt::AccessKind;

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

using TokenPermutationLadder = test::LadderOf<"token_permutation", 512, 256, 8, 4>;

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

}  // namespace ultra::ladders::experts_ladders_test
