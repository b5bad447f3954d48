// What each rung of cross_entropy changes, in counters, and what none of them may do wrong: sectors
// are counted in units of the logits read or written once.

#include "kernels/ladders/rows/cross_entropy/cross_entropy.hpp"
#include "kernels/simt/buffer.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ladders {
namespace cross_entropy_ladder_test {

using simt::AccessKind;
namespace rungs_of = kernels::cross_entropy;

constexpr std::uint64_t kTokens = 32;  // a warp of rung 1
constexpr std::uint64_t kVocab = 512;
constexpr std::uint64_t kLogits = kTokens * kVocab / 8;  // sectors
constexpr std::uint64_t kScalarWarps =
    kTokens * kVocab / 32;                           // of the kernels of a thread per logit
constexpr std::uint64_t kWarpsOfRow = kVocab / 128;  // of the blocks of rungs 3 and 4

class CrossEntropyLadder : public test::LadderTest {
 protected:
  CrossEntropyLadder() : LadderTest("cross_entropy", {kTokens, kVocab}) {}
};

TEST_F(CrossEntropyLadder, MaterializedReadsTheLogitsThreeTimes) {
  // Softmax, 8 times the sectors that are needed; the losses: the targets, and a probability of
  // each row; the gradients: a target for each warp, and the probabilities.
  expect_sectors(counters_of("materialized"),
                 3 * 8 * kLogits + kTokens / 8 + kTokens + kScalarWarps + kLogits,
                 8 * kLogits + kTokens / 8 + kLogits);
}

TEST_F(CrossEntropyLadder, LogSumExpStoresOneNumberPerToken) {
  // Twice for the sum, once for the gradient; per token the target and its logit; per warp of the
  // second kernel the target and the sum.
  expect_sectors(counters_of("log_sum_exp"), 3 * kLogits + 2 * kTokens + 2 * kScalarWarps,
                 kLogits + 2 * kTokens);
}

TEST_F(CrossEntropyLadder, OnlineReadsTwice) {
  const simt::Report report = counters_of("online");
  EXPECT_EQ(report.launches.size(), 1U);
  expect_sectors(report, 2 * kLogits + kTokens * kWarpsOfRow + kTokens, kLogits + kTokens);
}

TEST_F(CrossEntropyLadder, SharedMemoryReadsOnce) {
  const simt::Report report = counters_of("in_shared");
  expect_sectors(report, kLogits + kTokens * kWarpsOfRow, kLogits + kTokens);
  // Beyond the least: a sector where 4 bytes are needed, for each loss, and for the target in each
  // warp.
  EXPECT_EQ(bytes_moved(report),
            least_bytes() + static_cast<double>(kTokens * (28 + 32 * kWarpsOfRow - 4)));
  expect_no_bank_conflicts(report);
}

TEST_F(CrossEntropyLadder, SharedMemoryHasALimit) {
  const int longest = rungs_of::kLongestSharedRow;
  expect_right_bare("in_shared", {1, longest});
  EXPECT_NE(refusal_of("in_shared", {1, longest + 1}), "");
}

TEST_F(CrossEntropyLadder, LongRowsGoRoundEveryLoop) {
  for (const char* rung : {"online", "in_shared"}) {
    for (const int vocab : {9001, 20004}) {
      expect_right(rung, {.sizes = {2, vocab}});
      expect_right_bare(rung, {2, vocab});
    }
  }
}

// One token's loss and gradients by every rung.
class OneToken {
 public:
  explicit OneToken(const std::vector<float>& logits, int target)
      : targets_("targets", std::vector<int>{target}), before_(logits) {}

  struct Result {
    float loss;
    std::vector<float> d_logits;
  };

  Result run(simt::Queue queue,
             void (*launcher)(const rungs_of::Problem&, const simt::Queue&)) const {
    simt::Buffer<float> logits("logits", before_);
    simt::Buffer<float> losses("losses", 1);
    simt::Buffer<float> probabilities("probabilities", before_.size());
    simt::Buffer<float> log_sums("log_sums", 1);
    launcher({.tokens = 1,
              .vocab = static_cast<int>(before_.size()),
              .scale = 1.0F,
              .targets = targets_.data(),
              .logits = logits.data(),
              .losses = losses.data(),
              .probabilities = probabilities.data(),
              .log_sums = log_sums.data()},
             queue);
    return {.loss = losses.download().front(), .d_logits = logits.download()};
  }

 private:
  simt::Buffer<int> targets_;
  std::vector<float> before_;
};

constexpr auto kExecutor = simt::Executor::kChecked;
constexpr auto kLaunchers = {&rungs_of::materialized<kExecutor>, &rungs_of::log_sum_exp<kExecutor>,
                             &rungs_of::online<kExecutor>, &rungs_of::in_shared<kExecutor>};

TEST(CrossEntropyKernels, MaskedLogitsHaveNoProbability) {
  // As many as a thread's first accesses and whole warps see nothing but -infinity.
  std::vector<float> logits(1024, 0.0F);
  std::fill(logits.begin(), logits.begin() + 768, -std::numeric_limits<float>::infinity());
  const OneToken token(logits, 1000);
  for (const auto launcher : kLaunchers) {
    const auto [loss, d_logits] = token.run({}, launcher);
    EXPECT_NEAR(loss, std::log(256.0), 1e-5);
    EXPECT_EQ(d_logits.front(), 0.0F);
    EXPECT_NEAR(d_logits.back(), 1.0 / 256.0, 1e-7);
    EXPECT_NEAR(d_logits[1000], 1.0 / 256.0 - 1.0, 1e-6);
  }
}

TEST(CrossEntropyKernels, ATargetBehindTheVocabularyIsAnAccessOutside) {
  const OneToken token(std::vector<float>(64, 0.0F), 64);
  for (const auto launcher : kLaunchers) {
    try {
      (void)token.run({}, launcher);
      ADD_FAILURE() << "expected a SimtError";
    } catch (const simt::SimtError& error) {
      EXPECT_EQ(error.fault(), simt::Fault::kOutOfBounds) << error.what();
    }
  }
}

}  // namespace cross_entropy_ladder_test
}  // namespace ultra::ladders
