// What holds for every ladder of attention: the corners of its shapes, its cost, and shared memory
// without conflicts.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/chapters/09_kernels/attention/attention_fixture.hpp"

namespace ultra::ladders {
namespace attention_ladders_test {

const std::vector<Sizes> kFp32Corners = {{2, 1, 1, 1, 4},   {1, 1, 1, 1, 128},  {3, 2, 1, 65, 16},
                                         {2, 1, 5, 13, 64}, {1, 2, 2, 40, 100}, {1, 2, 3, 17, 128}};
const std::vector<Sizes> kBf16Corners = {{2, 1, 1, 1, 8},    {1, 1, 1, 1, 128}, {3, 2, 1, 65, 16},
                                         {1, 1, 5, 27, 64},  {2, 1, 5, 13, 64}, {1, 2, 2, 40, 104},
                                         {1, 1, 2, 129, 128}};

struct AttentionCase {
  const char* ladder;
  std::vector<Sizes> corners;
  std::vector<std::uint64_t> seeds_of_corners;
  // For each pair of a query and a key that it sees; and tensors like q and like k, of so many
  // bytes an element.
  double operations_per_element;
  double tensors;
  double element_bytes;
  // A length that shows bank conflicts, and the rungs without any: all when empty.
  int seq_len;
  std::vector<std::string> without_conflicts = {};
};

const std::vector<AttentionCase> kCases = {
    {.ladder = "attention",
     .corners = kFp32Corners,
     .seeds_of_corners = {kFull, kCausalLarge},
     .operations_per_element = 4.0,
     .tensors = 2.0,
     .element_bytes = 4.0,
     .seq_len = 64,
     .without_conflicts = {"flash_forward", "flash_causal", "flash_grouped"}},
    {.ladder = "attention_bf16",
     .corners = kBf16Corners,
     .seeds_of_corners = {kFull, kCausalLarge},
     .operations_per_element = 4.0,
     .tensors = 2.0,
     .element_bytes = 2.0,
     .seq_len = 128,
     .without_conflicts = {"swizzled", "pipelined"}},
    {.ladder = "attention_backward",
     .corners = kFp32Corners,
     .seeds_of_corners = {kFullLarge, kCausalLarge},
     .operations_per_element = 10.0,
     .tensors = 4.0,
     .element_bytes = 4.0,
     .seq_len = 64},
    {.ladder = "attention_backward_bf16",
     .corners = kBf16Corners,
     .seeds_of_corners = {kFullLarge, kCausalLarge},
     .operations_per_element = 10.0,
     .tensors = 4.0,
     .element_bytes = 2.0,
     .seq_len = 128}};

class AttentionLadders : public AttentionLadderTest,
                         public ::testing::WithParamInterface<AttentionCase> {
 protected:
  AttentionLadders() : AttentionLadderTest(GetParam().ladder) {}
};

INSTANTIATE_TEST_SUITE_P(All, AttentionLadders, ::testing::ValuesIn(kCases),
                         [](const auto& attention) { return attention.param.ladder; });

TEST_P(AttentionLadders, CornersAreRight) {
  for (const std::string& rung : emulated_rungs()) {
    for (const Sizes& sizes : GetParam().corners) {
      for (const std::uint64_t seed : GetParam().seeds_of_corners) {
        expect_right(rung, {.sizes = sizes, .seed = seed, .executor = simt::Executor::kFast});
      }
    }
  }
}

TEST_P(AttentionLadders, HaveRungsWithoutBankConflicts) {
  const std::vector<std::string>& some = GetParam().without_conflicts;
  for (const std::string& rung : some.empty() ? emulated_rungs() : some) {
    for (const int head_dim : {64, 128}) {
      SCOPED_TRACE(rung + ", head_dim " + std::to_string(head_dim));
      expect_no_bank_conflicts(counters_of(rung, {1, 1, 1, GetParam().seq_len, head_dim}, kFull));
    }
  }
}

TEST_P(AttentionLadders, CostIsOfTheCausalHalfWhereTheSeedIsOdd) {
  const Cost cost = ladder().cost({1, 2, 3, 10, 8});
  EXPECT_EQ(cost.operations, GetParam().operations_per_element * 6.0 * 55.0 * 8.0);
  EXPECT_EQ(ladder().cost({1, 2, 3, 10, 8}, kFull).operations,
            GetParam().operations_per_element * 6.0 * 100.0 * 8.0);
  EXPECT_EQ(cost.least_bytes,
            GetParam().element_bytes * GetParam().tensors * (6.0 * 80.0 + 2.0 * 80.0) + 4.0 * 60.0);
}

}  // namespace attention_ladders_test
}  // namespace ultra::ladders
