#include "chapters/02_collectives/ring_reduce_scatter.hpp"

#include "tests/exercises/02_collectives/trials.hpp"

namespace ultra {
namespace {

test::MakeSchedule ring(const Chunks& chunks) {
  return test::one_lane(
      [chunks](const Group& group) { return collectives::ring_reduce_scatter(group, chunks); });
}

/// Whether every position p ends with chunk p + shift complete: each contribution once.
bool complete_at(const CollectiveTrial& trial, const Chunks& chunks, int shift) {
  for (int p = 0; p < trial.size(); ++p) {
    for (std::size_t i = chunks[p + shift].begin; i < chunks[p + shift].end; ++i) {
      for (const int count : trial.contributions(trial.data(p)[i])) {
        if (count != 1) return false;
      }
    }
  }
  return true;
}

std::string hint(const CollectiveTrial& trial, const Chunks& chunks) {
  if (const std::string shape = test::hint_for_ring(trial); !shape.empty()) return shape;
  if (trial.fault() != test::Fault::kNone || !trial.in_whole_world()) return "";
  for (const comm::Round& step : trial.schedule(0).lanes.front()) {
    if (step.on_receive == comm::OnReceive::kStore) {
      return "\nHint: a chunk that arrives is combined with its own contribution, not put in its "
             "place: on_receive.";
    }
  }
  for (const int shift : {1, -1}) {
    if (trial.size() > 2 && complete_at(trial, chunks, shift)) {
      return "\nHint: the chunks are complete, but each one position off. Position r must end with "
             "chunk r: that is the last chunk which it receives. What does it receive one step "
             "earlier?";
    }
  }
  return "\nHint: write down for P = 3 which chunk each rank sends in each step. The last chunk "
         "that position r receives is chunk r.";
}

class RingReduceScatter : public test::RandomTest {};

TEST_F(RingReduceScatter, SendsEveryChunkButTheOwnOnceInPMinus1Steps) {
  test::for_trial_cases(random, test::kGroupSizes, [this](const TrialCase& c) {
    const Chunks chunks = test::chunks_for(c, random);
    CollectiveTrial trial(c.members, ring(chunks));
    const auto kept = trial.reduce_scatter(chunks);
    EXPECT_TRUE(kept) << hint(trial, chunks);
    if (!kept) return;
    EXPECT_EQ(trial.rounds(), trial.size() - 1)
        << "steps until the last rank has ended" << hint(trial, chunks);
    for (int p = 0; p < trial.size(); ++p) {
      EXPECT_EQ(trial.sent(p), chunks.whole().end - chunks[p].size())
          << "elements that position " << p << " sends.\nHint: one chunk per step, n/P elements.";
    }
  });
}

}  // namespace
}  // namespace ultra
