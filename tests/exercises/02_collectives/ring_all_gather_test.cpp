#include "chapters/02_collectives/ring_all_gather.hpp"

#include "tests/exercises/02_collectives/trials.hpp"

namespace ultra {
namespace {

using comm::Lane;

test::MakeSchedule ring(const Chunks& chunks) {
  return test::one_lane(
      [chunks](const Group& group) { return collectives::ring_all_gather(group, chunks); });
}

std::string hint(const CollectiveTrial& trial, const Chunks& chunks) {
  if (const std::string shape = test::hint_for_ring(trial); !shape.empty()) return shape;
  if (trial.fault() != test::Fault::kNone || !trial.in_whole_world()) return "";
  const Lane& steps = trial.schedule(0).lanes.front();
  for (const comm::Round& step : steps) {
    if (step.on_receive == comm::OnReceive::kReduce) {
      return "\nHint: these chunks are complete. What arrives overwrites the old contents; "
             "combining it with them is the reduce-scatter's work.";
    }
  }
  if (!steps.empty() && steps.front().send.range != chunks[0]) {
    return "\nHint: at first a position has nothing but its own chunk: that is what it sends "
           "first. What has arrived by the next step?";
  }
  return "\nHint: write down for P = 3 which chunk each rank sends in each step: at first its own, "
         "then what has just arrived.";
}

class RingAllGather : public test::RandomTest {};

TEST_F(RingAllGather, SendsEveryChunkButTheNextOnceInPMinus1Steps) {
  test::for_trial_cases(random, test::kGroupSizes, [this](const TrialCase& c) {
    const Chunks chunks = test::chunks_for(c, random);
    CollectiveTrial trial(c.members, ring(chunks));
    const auto kept = trial.all_gather(chunks);
    EXPECT_TRUE(kept) << hint(trial, chunks);
    if (!kept) return;
    EXPECT_EQ(trial.rounds(), trial.size() - 1)
        << "steps until the last rank has ended" << hint(trial, chunks);
    for (int p = 0; p < trial.size(); ++p) {
      EXPECT_EQ(trial.sent(p), chunks.whole().end - chunks[p + 1].size())
          << "elements that position " << p
          << " sends.\nHint: the next position's chunk comes from "
          << "there and need not go back: P - 1 steps of one chunk each.";
    }
  });
}

}  // namespace
}  // namespace ultra
