// What all ranks of random meshes send in a step, predicted and measured.
//
// Covers: chapters/11_five_d/composition/step_traffic.hpp
// Covers: chapters/11_five_d/composition/data_traffic.hpp

#include "chapters/11_five_d/composition/step_traffic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/chapters/11_five_d/composition/predicted_run.hpp"

namespace ultra::five_d {
namespace {

using five_d::test::Configuration;
using five_d::test::Flag;

class MeshTraffic : public five_d::test::PredictedRuns {
 protected:
  /// A dense training whose collectives are rings.
  Configuration draw_dense() {
    while (true) {
      Configuration one = draw();
      const auto drop = [](std::vector<Flag>& flags, const char* flag) {
        std::erase_if(flags, [&](const Flag& given) { return given.first == flag; });
      };
      for (const char* flag : {"--all-reduce", "--reduce-scatter", "--collectives",
                               "--check-replicas", "--compress"}) {
        drop(one.layout, flag);
      }
      for (const char* flag : {"--val-data", "--val-every", "--val-batches"}) {
        drop(one.model, flag);
      }
      one.layout.emplace_back("--all-reduce", "ring");
      one.layout.emplace_back("--reduce-scatter", "ring");
      if (one.value_of("--experts").empty() && five_d::test::refusal_of(one).empty()) return one;
    }
  }
};

TEST_F(MeshTraffic, IsWhatTheClosedFormsSay) {
  for (int trial = 0; trial < trials(); ++trial) {
    const Configuration configuration = draw_dense();
    SCOPED_TRACE(configuration.line());
    const StepTraffic predicted = step_traffic(five_d::test::setup_of(configuration));
    const std::vector<train::RankSummary> ranks = five_d::test::summaries(configuration);
    if (ranks.empty()) continue;  // another process has them
    std::size_t sent = 0;
    for (const train::RankSummary& rank : ranks) sent += rank.communication.sent_bytes();
    EXPECT_EQ(sent, predicted.total())
        << "data " << predicted.data << ", context " << predicted.context << ", tensor "
        << predicted.tensor << ", copies " << predicted.copies << ", pipeline "
        << predicted.pipeline << ", sums " << predicted.sums;
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace ultra::five_d
