#include "chapters/02_collectives/binomial_broadcast.hpp"

#include <bit>

#include "chapters/02_collectives/steps.hpp"
#include "tests/exercises/02_collectives/trials.hpp"

namespace ultra {
namespace {

test::MakeSchedule tree(std::size_t count, int root) {
  return test::one_lane([=](const Group& group) {
    return collectives::binomial_broadcast(group, {0, count}, root);
  });
}

std::string hint(const CollectiveTrial& trial, int root) {
  if (!std::has_single_bit(static_cast<unsigned>(trial.size())) && root == 0) {
    return "\nHint: it works for powers of two. In a smaller group some children do not exist: v "
           "sends to v + 2^k only when v + 2^k < P.";
  }
  if (root != 0 && trial.in_whole_world()) {
    return "\nHint: it works from root 0. From another root, count positions from there, v = "
           "(position - root) mod P, and turn them back with group.at(root + v).";
  }
  return test::hint_for_stuck(trial);
}

std::string slow_hint(const CollectiveTrial& trial, int root) {
  const std::size_t steps_of_root = trial.schedule(root).lanes.front().size();
  if (steps_of_root > static_cast<std::size_t>(collectives::doubling_rounds(trial.size()))) {
    return "\nHint: the root serves everybody alone. Whoever has the data can send it on: the "
           "number of those who have it doubles in every round.";
  }
  return "\nHint: send to the farthest child first: its subtree is the largest and needs the most "
         "rounds after this one.";
}

class BinomialBroadcast : public test::RandomTest {};

TEST_F(BinomialBroadcast, FromAnyRootEverybodyReceivesOnceInLog2PRounds) {
  test::for_trial_cases(random, test::kGroupSizes, [](const TrialCase& c) {
    for (int root = 0; root < c.members.size(); ++root) {
      CollectiveTrial trial(c.members, tree(c.count, root));
      const auto kept = trial.broadcast(c.count, root);
      EXPECT_TRUE(kept) << "root " << root << hint(trial, root);
      if (!kept) return;
      EXPECT_EQ(trial.rounds(), collectives::doubling_rounds(trial.size()))
          << "rounds, for ceil(log2 " << trial.size() << ")" << slow_hint(trial, root);
      std::size_t sent = 0;
      for (int p = 0; p < trial.size(); ++p) sent += trial.sent(p);
      EXPECT_EQ(sent, c.count * static_cast<std::size_t>(trial.size() - 1))
          << "elements that all send together: everybody but the root receives the data once";
    }
  });
}

}  // namespace
}  // namespace ultra
