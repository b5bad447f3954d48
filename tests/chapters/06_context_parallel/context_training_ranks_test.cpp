// The chapter's promise, through whole training runs: however sequences, matrices, batches and states
// are split over a mesh dp x cp x tp, the ranks compute what one rank computes.
//
// Covers: chapters/06_context_parallel/context_parallel.hpp
// Covers: chapters/06_context_parallel/context_parallel_factory.hpp

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/chapters/06_context_parallel/context_run.hpp"

namespace ultra::context_parallel {
namespace {

using namespace context_parallel::test;
using ::testing::Each;
using ::testing::Eq;

class ContextTraining : public ContextTest {
 protected:
  /// Losses, norms and weights within a relative distance of one rank's; the same on all ranks.
  static void expect_equals_one_rank(const ContextCase& c, double relative) {
    on_mesh(c, [&](Communicator& world) {
      const RankRun run = ultra::test::run_of(c.setup(), world);
      const RankRun one = run_alone(world, c.options);
      expect_equals(world, run, one, relative);
    });
  }
};

TEST_F(ContextTraining, EveryMethodAndLayoutComputesWhatOneRankComputes) {
  for (const int cp : {1, 2, 3, 4, 5, 8}) {
    for (const ContextMethod method :
         {ContextMethod::kRing, ContextMethod::kAllGather, ContextMethod::kUlysses}) {
      for (const auto layout : {SequenceLayout::kContiguous, SequenceLayout::kZigzag}) {
        const int ulysses = method == ContextMethod::kUlysses ? cp : 1;
        ContextCase c = draw(1, 1, {.method = method, .cp = cp, .ulysses = ulysses}, DType::kF64);
        c.layout = layout;
        expect_equals_one_rank(c, 1e-10);
        if (cp == 1) break;
      }
    }
  }
}

TEST_F(ContextTraining, HeadsAmongNeighboursAndARingAcross) {
  for (const auto& [cp, ulysses] :
       std::vector<std::pair<int, int>>{{4, 2}, {6, 2}, {6, 3}, {8, 4}}) {
    expect_equals_one_rank(
        draw(1, 1, {.method = ContextMethod::kUlyssesRing, .cp = cp, .ulysses = ulysses},
             DType::kF64),
        1e-10);
  }
}

TEST_F(ContextTraining, MeshesWithEveryStageOfZero) {
  using Mesh = std::tuple<int, int, int>;  // dp, cp, tp
  for (const auto& [dp, cp, tp] : std::vector<Mesh>{
           {2, 2, 1}, {2, 2, 2}, {1, 2, 4}, {3, 2, 1}, {1, 3, 2}, {2, 4, 1}, {1, 4, 2}}) {
    ContextCase c = draw(dp, tp, draw_choice(cp), DType::kF64);
    c.more = fmt::format("--zero {} --overlap {}", random.between(0, 3),
                         random.pick({"none", "bucketed"}));
    expect_equals_one_rank(c, 1e-10);
  }
}

TEST_F(ContextTraining, ShardsInNodesOfContextRanks) {
  ContextCase c = draw(2, 1, draw_choice(2), DType::kF64);
  c.more = "--zero 3 --hybrid-shard 2";
  expect_equals_one_rank(c, 1e-10);
}

TEST_F(ContextTraining, RecomputationOnAMesh) {
  for (const char* mode : {"selective", "full"}) {
    ContextCase c = draw(random.pick({1, 2}), random.pick({1, 2}), draw_choice(2), DType::kF64);
    c.more = fmt::format("--recompute {}", mode);
    expect_equals_one_rank(c, 1e-10);
  }
}

// A chunk, and a whole rank, may have no token at all.
TEST_F(ContextTraining, PaddingThatFillsARank) {
  for (const ContextMethod method : {ContextMethod::kRing, ContextMethod::kAllGather}) {
    ContextCase c = draw(1, 1, {.method = method, .cp = 4}, DType::kF64);
    c.layout = SequenceLayout::kContiguous;
    c.options.model.max_seq_len = 6;  // chunks of 2: the last is empty
    expect_equals_one_rank(c, 1e-10);
    c.layout = SequenceLayout::kZigzag;
    c.options.model.max_seq_len = 9;  // of 2 too: three of eight are empty
    expect_equals_one_rank(c, 1e-10);
  }
}

// 20 steps in f32, as the workbook promises for every layout.
TEST_F(ContextTraining, InF32LossesStayWithinAHundredThousandth) {
  for (const int cp : {2, 3, 4}) {
    ContextCase c = draw(cp == 2 ? 2 : 1, cp == 4 ? 2 : 1, draw_choice(cp), DType::kF32);
    c.options.steps = 20;
    on_mesh(c, [&](Communicator& world) {
      expect_near_losses(ultra::test::run_of(c.setup(), world), run_alone(world, c.options), 1e-5);
    });
  }
}

TEST_F(ContextTraining, DocumentsChangeTheTraining) {
  ContextCase c = draw(1, 1, {.method = ContextMethod::kRing, .cp = 2}, DType::kF64);
  c.options.model.max_seq_len = 12;
  c.options.doc_length = 2;
  train::TrainOptions whole = c.options;
  whole.doc_length = 0;
  on_mesh(c, [&](Communicator& world) {
    EXPECT_NE(losses_and_norms(run_alone(world, c.options).result),
              losses_and_norms(run_alone(world, whole).result));
  });
}

}  // namespace
}  // namespace ultra::context_parallel
