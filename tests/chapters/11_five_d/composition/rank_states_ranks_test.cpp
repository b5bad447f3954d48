// The bytes of states and activations on every rank of random meshes, predicted and measured.
//
// Covers: chapters/11_five_d/composition/rank_states.hpp
// Covers: chapters/11_five_d/composition/rank_tensors.hpp
// Covers: chapters/11_five_d/composition/rank_activations.hpp
// Covers: chapters/11_five_d/composition/flat_arrays.hpp
// Covers: chapters/11_five_d/composition/mesh_place.hpp

#include "chapters/11_five_d/composition/rank_states.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "chapters/11_five_d/composition/rank_activations.hpp"
#include "tests/chapters/11_five_d/composition/predicted_run.hpp"

namespace ultra::five_d {
namespace {

using five_d::test::Configuration;

class RankMemory : public five_d::test::PredictedRuns {
 protected:
  /// A mixture whose tokens use all experts, on a pipeline with cp, tp and ep as they come.
  Configuration draw_mixture() {
    while (true) {
      Configuration one = draw();
      if (one.value_of("--experts").empty() || one.value_of("--pp").empty()) continue;
      std::erase_if(one.model, [](const five_d::test::Flag& flag) {
        return flag.first.starts_with("--capacity");
      });
      one = one.with("--top-k", one.value_of("--experts")).with("--seq", "24");
      one = one.with("--global-batch", "12");
      if (!five_d::test::refusal_of(one).empty()) continue;
      if (spreads_evenly(five_d::test::setup_of(one))) return one;
    }
  }
  /// Whatever the closed forms say is what the ranks took.
  static void expect_activations(const Configuration& configuration) {
    SCOPED_TRACE(configuration.line());
    const train::Setup setup = five_d::test::setup_of(configuration);
    for (const train::RankSummary& rank : five_d::test::summaries(configuration)) {
      EXPECT_EQ(rank.memory.peak(MemoryCategory::kActivations).bytes,
                activation_bytes(setup, static_cast<std::size_t>(rank.rank)))
          << "rank " << rank.rank;
    }
  }
};

TEST_F(RankMemory, OfStagesWithExpertsToo) {
  for (int trial = 0; trial < trials() / 2 && !HasFailure(); ++trial) {
    expect_activations(draw_mixture());
  }
}

TEST_F(RankMemory, IsWhatTheClosedFormsSayOnEveryRank) {
  for (int trial = 0; trial < trials(); ++trial) {
    const Configuration configuration = draw();
    SCOPED_TRACE(configuration.line());
    const train::Setup setup = five_d::test::setup_of(configuration);
    const bool tied = setup.train.model.tied_embeddings;
    const bool sharded_gradients = configuration.count_of("--zero") >= 2;
    const std::vector<train::RankSummary> ranks = five_d::test::summaries(configuration);
    if (!launched_world_size()) {
      EXPECT_EQ(ranks.size(), configuration.ranks());
    }
    for (const train::RankSummary& rank : ranks) {
      SCOPED_TRACE(rank.rank);
      const auto number = static_cast<std::size_t>(rank.rank);
      const memory::StateBytes predicted = state_bytes(setup, number);
      const auto peak = [&](MemoryCategory category) { return rank.memory.peak(category).bytes; };
      EXPECT_EQ(peak(MemoryCategory::kParameters), predicted.parameters);
      EXPECT_EQ(peak(MemoryCategory::kOptimizer), predicted.optimizer);
      const auto activations = activation_bytes(setup, number);
      if (activations && spreads_evenly(setup)) {
        EXPECT_EQ(peak(MemoryCategory::kActivations), *activations);
      }
      if (tied && sharded_gradients) continue;
      EXPECT_EQ(peak(MemoryCategory::kGradients), predicted.gradients);
    }
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace ultra::five_d
