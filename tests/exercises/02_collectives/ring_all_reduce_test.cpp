#include "chapters/02_collectives/ring_all_reduce.hpp"

#include "tests/exercises/02_collectives/trials.hpp"

namespace ultra {
namespace {

test::MakeSchedule ring(const Chunks& chunks) {
  return test::one_lane(
      [chunks](const Group& group) { return collectives::ring_all_reduce(group, chunks); });
}

std::string hint(const CollectiveTrial& trial, const Chunks& chunks) {
  if (trial.fault() != test::Fault::kNone || !trial.in_whole_world()) {
    return test::hint_for_stuck(trial);
  }
  const auto most = [&](int position, std::size_t i) {
    const std::vector<int> counts = trial.contributions(trial.data(position)[i]);
    return *std::max_element(counts.begin(), counts.end());
  };
  const comm::Lane& steps = trial.schedule(0).lanes.front();
  if (!steps.empty() && steps.front().on_receive == comm::OnReceive::kStore) {
    return "\nHint: the reduce-scatter comes first: what the all-gather copies must be complete.";
  }
  for (int p = 0; p < trial.size(); ++p) {
    for (std::size_t i = 0; i < chunks.whole().end; ++i) {
      if (most(p, i) > 1) {
        return "\nHint: contributions are counted more than once: finished chunks were combined "
               "again after the reduce-scatter. The gather phase copies them.";
      }
    }
  }
  return "\nHint: each chunk is complete, but at one rank only: the all-gather is missing.";
}

class RingAllReduce : public test::RandomTest {};

TEST_F(RingAllReduce, AllEndWithTheReductionOfEverythingForTwiceTheData) {
  test::for_trial_cases(random, test::kGroupSizes, [this](const TrialCase& c) {
    const Chunks chunks = Chunks::even({0, c.count}, c.members.size());
    CollectiveTrial trial(c.members, ring(chunks));
    const auto kept = trial.all_reduce(c.count);
    EXPECT_TRUE(kept) << hint(trial, chunks);
    if (!kept) return;
    EXPECT_TRUE(trial.same_bits_everywhere(c.count, random));
    EXPECT_EQ(trial.rounds(), 2 * (trial.size() - 1)) << "steps until the last rank has ended";
    for (int p = 0; p < trial.size(); ++p) {
      EXPECT_EQ(trial.sent(p), 2 * c.count - chunks[p].size() - chunks[p + 1].size())
          << "elements that position " << p << " sends: every chunk but one in each phase";
    }
  });
}

}  // namespace
}  // namespace ultra
