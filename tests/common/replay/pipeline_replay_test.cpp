// Pipelines of recorded stages, made of messages: their bubble is a closed form.
#include <algorithm>
#include <functional>

#include "common/replay/replay.hpp"
#include "tests/common/replay/tape_writer.hpp"
#include "tests/support/random.hpp"

namespace ultra::replay {
namespace {

using namespace test;  // NOLINT: what tapes are written with

/// Stages of a pipeline, each of which gives every micro-batch the same times.
struct Pipeline {
  std::size_t stages;
  std::size_t micro_batches;
  std::size_t forward;
  std::size_t backward;

  void pass(TapeWriter& rank, std::size_t stage, std::size_t micro_batch, bool is_forward) const {
    const bool receives = is_forward ? stage > 0 : stage + 1 < stages;
    const bool sends = is_forward ? stage + 1 < stages : stage > 0;
    const int here = static_cast<int>(stage);
    const int before = is_forward ? here - 1 : here + 1;
    const int behind = is_forward ? here + 1 : here - 1;
    if (receives) rank.wait(rank.receive(before, micro_batch, 0));
    rank.work(is_forward ? forward : backward);
    if (sends) rank.send(behind, micro_batch, 0, rank.record());
  }

  /// @param most_forward  passes before the first backward pass of a stage, where there are as many.
  [[nodiscard]] std::vector<TapeWriter> ranks(
      const std::function<std::size_t(std::size_t stage)>& most_forward) const {
    std::vector<TapeWriter> all;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      TapeWriter& rank = all.emplace_back(static_cast<int>(stage));
      const std::size_t first = std::min(most_forward(stage), micro_batches);
      for (std::size_t i = 0; i < first; ++i) pass(rank, stage, i, true);
      for (std::size_t i = 0; i < micro_batches; ++i) {
        pass(rank, stage, i, false);
        if (first + i < micro_batches) pass(rank, stage, first + i, true);
      }
    }
    return all;
  }
};

class PipelineReplay : public ultra::test::RandomTest {
 protected:
  const Pipeline pipeline_{.stages = random.between(1, 8),
                           .micro_batches = random.between(1, 20),
                           .forward = random.between(1, 9),
                           .backward = random.between(1, 9)};

  void expect_the_bubble(const std::vector<TapeWriter>& ranks) const {
    const auto [p, m, f, b] = pipeline_;
    const double total = static_cast<double>((m + p - 1) * (f + b));
    const auto found = replay(tapes_of(ranks), unit_prices());
    for (std::size_t stage = 0; stage < p; ++stage) {
      // A stage is done when those before it have only the last gradient's way left.
      EXPECT_EQ(found[stage].seconds, total - static_cast<double>(stage * b)) << stage;
      EXPECT_EQ(found[stage].work(), static_cast<double>(m * (f + b)));
      EXPECT_EQ(found[stage].for_a_stage, found[stage].seconds - found[stage].work());
    }
    EXPECT_DOUBLE_EQ(found[0].for_a_stage / total,
                     static_cast<double>(p - 1) / static_cast<double>(m + p - 1));
  }
};

TEST_F(PipelineReplay, AllForwardThenAllBackward) {
  expect_the_bubble(pipeline_.ranks([&](std::size_t) { return pipeline_.micro_batches; }));
}

TEST_F(PipelineReplay, OneForwardOneBackward) {
  expect_the_bubble(pipeline_.ranks([&](std::size_t stage) { return pipeline_.stages - stage; }));
}

TEST_F(PipelineReplay, AStageAloneHasNoBubble) {
  const auto ranks = pipeline_.ranks([&](std::size_t stage) { return pipeline_.stages - stage; });
  const RankTape tape = ranks.back().taped();
  const ReplayedRank found = replay({&tape, 1}, unit_prices()).front();
  EXPECT_EQ(found.seconds, found.work()) << "all that it receives is as early as it is";
}

}  // namespace
}  // namespace ultra::replay
