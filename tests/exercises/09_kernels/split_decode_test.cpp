// Exercise 09.9: the attention of one query from the attentions of parts of its keys.

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/support/contracts/accesses.hpp"
#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

// Seeds with bit 1 have queries that are 40 times as large.
constexpr std::uint64_t kSmallScores = 1;
constexpr std::uint64_t kLargeScores = 2;

// What the kernel for the rows loads, in bytes: the counters of the learner's own file.
struct Loaded {
  std::uint64_t rows = 0;    // of part_o: neighbouring lanes load neighbours
  std::uint64_t shared = 0;  // by lanes that load the same: the length, and each lse
};

Loaded loaded_by_learner(const simt::Report& report) {
  Loaded loaded;
  for (const simt::Site& site : report.sites) {
    if (site.kind == AccessKind::kGlobalLoad && site.file.ends_with("split_decode.cu")) {
      (site.sectors > site.requests ? loaded.rows : loaded.shared) += site.bytes;
    }
  }
  return loaded;
}

class SplitDecode : public test::RandomTest {
 protected:
  simt::Report expect_right(const Sizes& sizes, std::uint64_t drawn, const char* hint) const {
    return test::expect_right(*ladder, rung, {.sizes = sizes, .seed = drawn}, hint).report;
  }

  std::unique_ptr<Ladder> ladder = attention_decode_ladder();
  int rung = test::find_rung(*ladder, "split");
};

// 256 keys are a part.
TEST_F(SplitDecode, IsRightStepByStep) {
  expect_right({1, 256, 1, 1, 32}, kSmallScores, "a single part's output is the row's");
  expect_right({1, 700, 1, 1, 32}, kSmallScores,
               "a part's share is that of its exponentials in the sum over all parts: its lse says "
               "how large their sum is");
  expect_right({1, 600, 1, 1, 32}, kLargeScores,
               "exp(lse) overflows for large scores: measure against the largest lse");
  expect_right(
      {1, 300, 2, 3, 32}, kSmallScores,
      "row (sequence, head) of part_lse begins count_parts(most_tokens) behind the row before");
  expect_right({4, 600, 1, 1, 32}, kSmallScores,
               "a sequence has count_parts(its length) parts; nobody has written the others");
}

TEST_F(SplitDecode, IsRightForAnyShape) {
  test::expect_right_everywhere(*ladder, rung, random, 3);
  expect_right({1, 300, 1, 1, 128}, kSmallScores, "a row may have 128 columns");
  expect_right({1, 300, 1, 8, 64}, kLargeScores, "eight heads may share keys and values");
}

TEST_F(SplitDecode, ReadsPartsOnce) {
  constexpr int kParts = 4;
  constexpr std::uint64_t kHeadDim = 32;
  const auto report_of = [this](int parts) {
    return expect_right({1, 256 * parts, 1, 1, kHeadDim}, kSmallScores, "check the indices");
  };
  const simt::Report report = report_of(kParts);
  EXPECT_EQ(report.launches.size(), 2U) << "Hint: one launch for the parts, one for the rows";
  // Outputs of parts are the stores of 4 bytes that are not lse.
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).bytes,
            4U * kParts * (kHeadDim + 1) + 2U * kHeadDim)
      << "Hint: the kernel for the rows writes o, by stg(), and nothing else";
  const Loaded loaded = loaded_by_learner(report);
  EXPECT_EQ(loaded.rows, sizeof(float) * kParts * kHeadDim)
      << "Hint: each output of a part is read once, by an ldg() on a line of its own: where fewer "
         "bytes were counted, this kernel reads past ldg()";
  // With the parts grows what is read of lses; what does not grow is the length.
  const std::uint64_t of_twice = loaded_by_learner(report_of(2 * kParts)).shared;
  EXPECT_GE(of_twice, loaded.shared + sizeof(float) * kParts)
      << "Hint: " << test::hint_of_uncounted(AccessKind::kGlobalLoad) << ", each lse too";
  EXPECT_GT(2 * loaded.shared, of_twice)
      << "Hint: " << test::hint_of_uncounted(AccessKind::kGlobalLoad) << ", the length too";
}

}  // namespace
}  // namespace ultra::ladders
