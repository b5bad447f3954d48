// The techniques of the chapters together with stages, axes and layers that no chapter knows: each is one
// rank's training, number for number.
#include "build_config.hpp"
#include "tests/composition/artificial.hpp"
#include "tests/composition/hand_written.hpp"
#include "tests/composition/outcome.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::composition {
namespace {

constexpr double kF64 = 1e-10;
constexpr double kF32 = 1e-5;

/// A small model on a fixed text; its directory has no spaces, or the flags could not be words.
std::string model_flags() {
  return fmt::format(
      "--layers 4 --hidden 16 --heads 4 --kv-heads 2 --ffn 24 --seq 12 --warmup 1 --lr 1e-2 "
      "--data {}/tests/data/arithmetic.txt",
      build::kSourceDir);
}

std::string flags(const std::string& dtype, const std::string& more) {
  const int steps = dtype == "f64" ? 5 : 20;
  return fmt::format("{} --steps {} --dtype {} {}", model_flags(), steps, dtype, more);
}

/// Compares a layout with one rank in both types.
void expect_one_rank(const std::string& batch, const std::string& layout,
                     const std::vector<Extra>& extras = {},
                     const std::vector<Extra>& extras_of_one = {},
                     const std::function<void(train::Setup&)>& change = {}) {
  SCOPED_TRACE(layout);
  expect_same(outcome_of(flags("f64", batch + layout), extras, change),
              outcome_of(flags("f64", batch), extras_of_one, change), kF64);
  test::expect_near_losses(outcome_of(flags("f32", batch + layout), extras, change),
                           outcome_of(flags("f32", batch), extras_of_one, change), kF32);
}

Extra pipeline(const HandWritten& stages) {
  return [stages] { return std::make_unique<HandWrittenPipeline>(stages); };
}

/// Two chunks a stage in a V, with gradients of weights put off; two micro-batches.
HandWritten split_v() {
  return staged(2, {{0, 0}, {1, 0}, {1, 1}, {0, 1}}, 4,
                {"F0 F1 F0.1 B0.1 F1.1 B1.1 B0 W0.1 W0 B1 W1.1 W1",
                 "F0 F0.1 F1 F1.1 B0.1 B0 B1.1 B1 W0.1 W0 W1.1 W1"});
}

TEST(Composition, OneForwardOneBackwardWithDataZero1AndTensorParallelism) {
  expect_one_rank("--global-batch 12 --micro-batch 2 ", "--dp 2 --tp 2 --zero 1",
                  {pipeline(one_forward_one_backward(2, 4, 3))});
  HandWritten split_sequences = one_forward_one_backward(2, 4, 3);
  split_sequences.sequence_parts = 2;
  expect_one_rank("--global-batch 12 --micro-batch 2 ", "--dp 2 --tp 2 --sp on --zero 2",
                  {pipeline(split_sequences)});
}

TEST(Composition, TwoChunksInAVWithSplitBackwardZero3PrefetchAndRecomputation) {
  const std::string batch = "--global-batch 8 --micro-batch 2 ";
  for (const char* how :
       {"--prefetch 2", "--prefetch 0", "--prefetch 2 --reshard-after-forward no"}) {
    expect_one_rank(batch, fmt::format("--dp 2 --zero 3 --recompute full {}", how),
                    {pipeline(split_v())});
  }
  expect_one_rank(batch, "--dp 2 --zero 3 --overlap none", {pipeline(split_v())});
  expect_one_rank(batch, "--dp 2 --zero 2", {pipeline(split_v())});
  expect_one_rank(batch, "--dp 2 --overlap per-parameter --check-replicas 2",
                  {pipeline(split_v())});
}

TEST(Composition, TwoDataGroupsAndAParameterThatIsIdleAtTimes) {
  const auto experts = [](int halves) {
    return [halves]() -> std::unique_ptr<train::Technique> {
      return std::make_unique<TwoExperts>(halves);
    };
  };
  for (const char* layout : {"--dp 4", "--dp 2", "--dp 4 --overlap per-parameter"}) {
    expect_one_rank("--global-batch 8 --micro-batch 1 ", layout, {experts(2)}, {experts(1)});
  }
}

TEST(Composition, AParameterInTwoGroupsOfEqualSizeWithPartialGradientsInBoth) {
  const auto axis = []() -> std::unique_ptr<train::Technique> {
    return std::make_unique<SecondAxis>(2);
  };
  const std::string batch = "--global-batch 8 --micro-batch 2 ";
  expect_one_rank(batch, "--tp 4", {axis});
  expect_one_rank(batch, "--tp 4 --sp on", {axis});
  expect_one_rank(batch, "--tp 2 --dp 2 --zero 1", {axis});
}

TEST(Composition, WhereLayersStandChangesNoBitOfLossAndNorm) {
  const std::string batch = flags("f32", "--global-batch 6 --micro-batch 2");
  const RankRun one = outcome_of(batch);
  for (const HandWritten& stages :
       {one_forward_one_backward(2, 4, 3), staged(4, {{0, 0}, {1, 0}, {2, 0}, {3, 0}}, 4),
        staged(2, {{0, 0}, {1, 0}, {0, 1}, {1, 1}}, 4,
               {"F0 F0.1 BW0.1 BW0 F1 F1.1 BW1.1 BW1 F2 F2.1 BW2.1 BW2",
                "F0 F0.1 BW0.1 BW0 F1 F1.1 BW1.1 BW1 F2 F2.1 BW2.1 BW2"})}) {
    const RankRun split = outcome_of(batch, {pipeline(stages)});
    for (std::size_t s = 0; s < one.result.steps.size(); ++s) {
      EXPECT_EQ(split.result.steps[s].loss, one.result.steps[s].loss);
      EXPECT_EQ(split.result.steps[s].grad_norm, one.result.steps[s].grad_norm);
    }
    EXPECT_EQ(split.weights, one.weights);
  }
}

TEST(Composition, TwoTechniquesThatWantTheSameAreRefusedInWords) {
  const auto again = [] { return std::make_unique<HandWrittenPipeline>(staged(1, {{0, 0}}, 4)); };
  const std::string message = test::message_of<ConfigError>([&] {
    static_cast<void>(outcome_of(flags("f32", ""), {again, again}));
  });
  EXPECT_NE(message.find("stages by hand and stages by hand do not go together"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace ultra::composition
