// A validation changes nothing of the training; that its loss is the same in every layout is a part of
// tests/chapters/11_five_d/composition/.
#include "build_config.hpp"
#include "tests/composition/outcome.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::composition {
namespace {

std::string flags_of(const std::string& more) {
  return fmt::format(
      "--layers 4 --hidden 16 --heads 4 --kv-heads 2 --ffn 24 --seq 12 --warmup 1 "
      "--global-batch 8 --micro-batch 2 --dtype f64 "
      "--data {}/tests/data/arithmetic.txt {}",
      build::kSourceDir, more);
}

std::string training(const std::string& more) { return flags_of("--steps 5 --lr 1e-2 " + more); }

std::string validating(const std::string& more) {
  return training(
      fmt::format("--val-data {}/tests/data/arithmetic.txt --val-every 2 "
                  "--val-batches 3 {}",
                  build::kSourceDir, more));
}

const std::vector<std::string>& validated_layouts() {
  static const std::vector<std::string> all = {
      "--dp 2",
      "--dp 3",
      "--dp 2 --zero 1",
      "--dp 2 --zero 2",
      "--dp 2 --zero 3",
      "--dp 2 --zero 3 --reshard-after-forward no --prefetch 2",
      "--dp 2 --zero 3 --recompute full --recompute-every 2",
      "--dp 2 --zero 3 --offload optimizer+params",
      "--recompute selective",
      "--tp 2",
      "--dp 2 --tp 2 --sp on --zero 3"};
  return all;
}

TEST(Validation, FollowsEveryNthStepAndTheLast) {
  const RankRun run = outcome_of(validating(""));
  std::vector<std::size_t> after;
  for (const train::StepMetrics& step : run.result.steps) {
    if (step.validation_loss) after.push_back(step.step);
  }
  EXPECT_THAT(after, ElementsAre(2, 4, 5));
}

TEST(Validation, ChangesNoBitOfTheTrainingAndNoByteOfItsTraffic) {
  for (const std::string& layout : validated_layouts()) {
    SCOPED_TRACE(layout);
    const RankRun with = outcome_of(validating(layout));
    const RankRun without = outcome_of(training(layout));
    EXPECT_EQ(with.weights, without.weights);
    ASSERT_EQ(with.result.ranks.size(), without.result.ranks.size());
    for (std::size_t rank = 0; rank < with.result.ranks.size(); ++rank) {
      EXPECT_EQ(with.result.ranks[rank].communication.kinds,
                without.result.ranks[rank].communication.kinds);
    }
  }
}

// The untrained model of one rank, on the same sequences: the first step's loss is its mean.
TEST(Validation, IsTheMeanLossOfItsBatches) {
  const RankRun run =
      outcome_of(flags_of(fmt::format("--lr 0 --steps 3 --val-batches 3 --val-data {}/tests/data/"
                                      "arithmetic.txt",
                                      build::kSourceDir)));
  double mean = 0;
  for (const train::StepMetrics& step : run.result.steps) mean += step.loss / 3;
  ASSERT_TRUE(run.result.steps.back().validation_loss);
  EXPECT_NEAR(*run.result.steps.back().validation_loss, mean, 1e-10 * mean)
      << "the same text, and the same batches";
}

}  // namespace
}  // namespace ultra::composition
