// What rungs over rows change, in counters.

#include "kernels/ladders/rows/cross_entropy/cross_entropy.hpp"
#include "kernels/ladders/rows/linear_cross_entropy/linear_cross_entropy.hpp"
#include "kernels/ladders/rows/linear_cross_entropy_backward/linear_cross_entropy_backward.hpp"
#include "kernels/ladders/rows/rms_norm_backward/rms_norm_backward.hpp"
#include "kernels/simt/buffer.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"

// What each rung of rms_norm and of rms_norm_backward changes, in counters: sectors are counted in
// units of one matrix read or written once.
namespace ultra::ladders::rms_norm_ladders_test {

using simt::AccessKind;

constexpr std::uint64_t kRows = 32;  // a warp of rung 1
constexpr std::uint64_t kHidden = 512;
constexpr std::uint64_t kMatrix = kRows * kHidden / 8;  // sectors

using RmsNormLadder = test::LadderOf<"rms_norm", kRows, kHidden>;

TEST_F(RmsNormLadder, AThreadPerRowTouchesASectorPerLane) {
  const simt::Report report = counters_of("thread_per_row");
  // The addition is coalesced. Every load of h and store of y takes 32 sectors for 128 bytes, 8
  // times what is needed; h is loaded twice; a load of weight is one address.
  expect_sectors(report, 2 * kMatrix + 2 * 8 * kMatrix + kHidden,
                 kMatrix + 8 * kMatrix + kRows / 8);
}

TEST_F(RmsNormLadder, AWarpPerRowTouchesFourSectors) {
  const simt::Report report = counters_of("warp_per_row");
  // x and residual; h twice; weight for each row.
  expect_sectors(report, 5 * kMatrix, 2 * kMatrix + kRows);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors_per_request(), 4.0);
}

TEST_F(RmsNormLadder, VectorsTakeAQuarterOfTheRequests) {
  const simt::Site scalar = counters_of("warp_per_row").total(AccessKind::kGlobalLoad);
  const simt::Site vector = counters_of("vectorised").total(AccessKind::kGlobalLoad);
  EXPECT_EQ(vector.sectors, scalar.sectors);
  EXPECT_EQ(4 * vector.requests, scalar.requests);
}

TEST_F(RmsNormLadder, RegistersSaveTheSecondRead) {
  expect_sectors(counters_of("in_registers"), 4 * kMatrix, 2 * kMatrix + kRows);
}

TEST_F(RmsNormLadder, FusedMovesTheLeast) {
  const simt::Report report = counters_of("fused");
  EXPECT_EQ(report.launches.size(), 1U);
  expect_sectors(report, 3 * kMatrix, 2 * kMatrix + kRows);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors_per_request(), 16.0);
  // All but weight, which every row reads, comes and goes once.
  constexpr double kRepeated = (kRows - 1) * kHidden * sizeof(float);
  EXPECT_EQ(bytes_asked(report) - kRepeated, least_bytes());
}

using RmsNormBackwardLadder = test::LadderOf<"rms_norm_backward", kRows, kHidden>;

TEST_F(RmsNormBackwardLadder, AThreadPerRowAddsWholeWarpsToOneAddress) {
  const simt::Report report = counters_of("thread_per_row");
  const simt::Site atomics = report.total(AccessKind::kGlobalAtomic);
  EXPECT_EQ(atomics.lanes, kRows * kHidden);
  EXPECT_EQ(atomics.requests, kHidden);
  EXPECT_EQ(atomics.sectors_per_request(), 1.0);
  // d_y and x, twice each, with 8 times the sectors that are needed; weight, twice, one address
  // each; the reciprocals.
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors,
            4 * 8 * kMatrix + 2 * kHidden + kRows / 8);
}

TEST_F(RmsNormBackwardLadder, AWarpPerRowAddsToNeighbours) {
  const simt::Report report = counters_of("warp_per_row");
  const simt::Site atomics = report.total(AccessKind::kGlobalAtomic);
  EXPECT_EQ(atomics.lanes, kRows * kHidden);
  EXPECT_EQ(atomics.sectors_per_request(), 4.0);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors, 6 * kMatrix + kRows);
}

TEST_F(RmsNormBackwardLadder, TwoStagesReadOnceAndNeedNoAtomics) {
  const simt::Report report = counters_of("two_stages");
  EXPECT_EQ(report.total(AccessKind::kGlobalAtomic).requests, 0U);
  const std::uint64_t warps = kHidden / 32 / kernels::rms_norm_backward::kElementsPerThread;
  const std::uint64_t partials =
      static_cast<std::uint64_t>(kernels::rms_norm_backward::partials_of(kRows)) * kHidden / 8;
  // d_y, x and weight, a reciprocal for each warp of a row; then the partial sums.
  expect_sectors(report, 3 * kMatrix + kRows * warps + partials, kMatrix + partials + kHidden / 8);
}

}  // namespace ultra::ladders::rms_norm_ladders_test

// What each rung of cross_entropy changes, in counters, and what none of them may do wrong: sectors
// are counted in units of the logits read or written once.
namespace ultra::ladders::cross_entropy_ladder_test {

using simt::AccessKind;
namespace rungs_of = kernels::cross_entropy;

constexpr std::uint64_t kTokens = 32;  // a warp of rung 1
constexpr std::uint64_t kVocab = 512;
constexpr std::uint64_t kLogits = kTokens * kVocab / 8;  // sectors
constexpr std::uint64_t kScalarWarps =
    kTokens * kVocab / 32;                           // of the kernels of a thread per logit
constexpr std::uint64_t kWarpsOfRow = kVocab / 128;  // of the blocks of rungs 3 and 4

using CrossEntropyLadder = test::LadderOf<"cross_entropy", kTokens, kVocab>;

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

}  // namespace ultra::ladders::cross_entropy_ladder_test

// What linear_cross_entropy and its backward pass keep.
namespace ultra::ladders::linear_cross_entropy_ladders_test {

using kernels::linear_cross_entropy_backward::chunk_of;
TEST(LinearCrossEntropy, ScratchOfOneTokenOfEachTile) {
  EXPECT_EQ(kernels::linear_cross_entropy::partials_size(8192, 128256), 2U * 8192 * 1002);
}

// 8192 tokens of a vocabulary of 128,256: 32 chunks of 256, whose logits are as many as x has
// elements, rounded up.
TEST(LinearCrossEntropyBackward, AChunksLogitsAreAboutAsManyAsElementsOfX) {
  EXPECT_EQ(chunk_of(8192, 128256, 4096), 256);
  EXPECT_EQ(chunk_of(256, 256, 64), 128);
  EXPECT_EQ(chunk_of(1, 8, 8), 128);
}

}  // namespace ultra::ladders::linear_cross_entropy_ladders_test
