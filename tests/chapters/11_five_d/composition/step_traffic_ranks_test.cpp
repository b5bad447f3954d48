// What all ranks of random meshes send in a step, predicted and measured.
//
// Covers: chapters/11_five_d/composition/step_traffic.hpp
// Covers: chapters/11_five_d/composition/expert_traffic.hpp

#include "chapters/11_five_d/composition/step_traffic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "chapters/11_five_d/composition/expert_traffic.hpp"
#include "tests/chapters/11_five_d/composition/predicted_run.hpp"

namespace ultra::five_d {
namespace {

using five_d::test::Configuration;
using five_d::test::Flag;

class MeshTraffic : public five_d::test::PredictedRuns {
 protected:
  /// A training whose collectives are rings, of experts without a capacity or without experts.
  Configuration draw_with_rings(bool experts) {
    while (true) {
      Configuration one = draw();
      const auto drop = [](std::vector<Flag>& flags, const char* flag) {
        std::erase_if(flags, [&](const Flag& given) { return given.first == flag; });
      };
      for (const char* flag : {"--all-reduce", "--reduce-scatter", "--collectives",
                               "--check-replicas", "--compress"}) {
        drop(one.layout, flag);
      }
      for (const char* flag : {"--val-data", "--val-every", "--val-batches", "--capacity-factor",
                               "--capacity-group"}) {
        drop(one.model, flag);
      }
      one.layout.emplace_back("--all-reduce", "ring");
      one.layout.emplace_back("--reduce-scatter", "ring");
      const bool has_experts = !one.value_of("--experts").empty();
      if (has_experts == experts && five_d::test::refusal_of(one).empty()) return one;
    }
  }
  static void expect_traffic(const Configuration& configuration) {
    SCOPED_TRACE(configuration.line());
    const train::Setup setup = five_d::test::setup_of(configuration);
    const StepTraffic predicted = step_traffic(setup);
    const std::vector<train::RankSummary> ranks = five_d::test::summaries(configuration);
    if (ranks.empty()) return;  // another process has them
    std::size_t sent = 0;
    for (const train::RankSummary& rank : ranks) sent += rank.communication.sent_bytes();
    const auto experts = expert_bytes(setup, ranks, 1);
    ASSERT_TRUE(experts);
    EXPECT_EQ(sent, predicted.total() + *experts)
        << "data " << predicted.data << ", context " << predicted.context << ", tensor "
        << predicted.tensor << ", copies " << predicted.copies << ", pipeline "
        << predicted.pipeline << ", sums " << predicted.sums << ", experts " << *experts;
  }
};

TEST_F(MeshTraffic, IsWhatTheClosedFormsSay) {
  for (int trial = 0; trial < trials() && !HasFailure(); ++trial) {
    expect_traffic(draw_with_rings(false));
  }
}

TEST_F(MeshTraffic, WithExpertsOfTheChoicesThatWereMadeToo) {
  for (int trial = 0; trial < trials() / 2 && !HasFailure(); ++trial) {
    expect_traffic(draw_with_rings(true));
  }
}

}  // namespace
}  // namespace ultra::five_d
