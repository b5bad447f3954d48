#include "chapters/02_collectives/two_level_all_reduce.hpp"

#include "tests/exercises/02_collectives/trials.hpp"

namespace ultra {
namespace {

test::MakeSchedule two_level(std::size_t count, int ranks_per_node) {
  return test::one_lane([=](const Group& group) {
    return collectives::two_level_all_reduce(group, {0, count}, ranks_per_node);
  });
}

/// Elements that a position sends to other nodes.
std::size_t sent_across(const CollectiveTrial& trial, int position, int ranks_per_node) {
  return trial.sent_to(
      position, [&](int peer) { return peer / ranks_per_node != position / ranks_per_node; });
}

std::string hint(const CollectiveTrial& trial, std::size_t count, int ranks_per_node) {
  if (trial.fault() != test::Fault::kNone || !trial.in_whole_world()) {
    return test::hint_for_stuck(trial);
  }
  const Chunks chunks = Chunks::even({0, count}, ranks_per_node);
  for (int p = 0; p < trial.size(); ++p) {
    const Range own = chunks[p % ranks_per_node];
    for (std::size_t i = own.begin; i < own.end; ++i) {
      const std::vector<int> counts = trial.contributions(trial.data(p)[i]);
      if (std::any_of(counts.begin(), counts.end(), [](int n) { return n > 1; })) {
        return "\nHint: contributions are counted more than once. Across nodes, only members that "
               "hold the same chunk of different nodes are reduced with each other.";
      }
      if (std::any_of(counts.begin(), counts.end(), [](int n) { return n == 0; })) {
        return "\nHint: contributions of other nodes are missing. Between the two parts inside the "
               "node, the members at the same place of every node all-reduce their chunk.";
      }
    }
  }
  return "\nHint: every rank has its own chunk complete; the all-gather inside the node is "
         "missing.";
}

/// Divisors of a group's size, as numbers of ranks per node.
std::vector<int> node_sizes(int size) {
  std::vector<int> sizes;
  for (int n = 1; n <= size; ++n) {
    if (size % n == 0) sizes.push_back(n);
  }
  return sizes;
}

constexpr int kSizes[] = {4, 6, 8, 2, 1, 9, 12, 16};

class TwoLevelAllReduce : public test::RandomTest {
 protected:
  template <class Check>
  void for_nodes(const Check& check) {
    test::for_trial_cases(random, kSizes, [&](const TrialCase& c) {
      for (const int per_node : node_sizes(c.members.size())) {
        SCOPED_TRACE(fmt::format("{} ranks per node", per_node));
        CollectiveTrial trial(c.members, two_level(c.count, per_node));
        check(trial, c.count, per_node);
        if (HasFailure()) return;
      }
    });
  }
};

TEST_F(TwoLevelAllReduce, AllEndWithTheReductionAndOnlyTheOwnChunkLeavesTheNode) {
  for_nodes([this](CollectiveTrial& trial, std::size_t count, int per_node) {
    const auto kept = trial.all_reduce(count);
    EXPECT_TRUE(kept) << hint(trial, count, per_node);
    if (!kept) return;
    EXPECT_TRUE(trial.same_bits_everywhere(count, random));
    EXPECT_EQ(trial.rounds(), 2 * (per_node - 1) + 2 * (trial.size() / per_node - 1)) << "steps";
    const int nodes = trial.size() / per_node;
    const Chunks inside = Chunks::even({0, count}, per_node);
    for (int p = 0; p < trial.size(); ++p) {
      const int node = p / per_node;
      const Chunks across = Chunks::even(inside[p % per_node], nodes);
      EXPECT_EQ(sent_across(trial, p, per_node),
                2 * across.whole().size() - across[node].size() - across[node + 1].size())
          << "elements that position " << p << " of node " << node << " sends to other nodes.\n"
          << "Hint: positions [k L, (k + 1) L) share node k, and across nodes a rank reduces "
          << "nothing but the chunk that it owns after the reduce-scatter inside the node.";
    }
  });
}

TEST_F(TwoLevelAllReduce, RejectsNodesThatAreNotFull) {
  for (const int per_node : {3, 5, 16, 0, -2}) {
    const auto message = message_of<ConfigError>([&] {
      return collectives::two_level_all_reduce(Group::all(0, 8), {0, 100}, per_node);
    });
    EXPECT_NE(message.find(std::to_string(per_node)), std::string::npos)
        << "the message names both numbers: '" << message
        << "'\nHint: throw ConfigError when ranks_per_node does not divide the group's size.";
  }
}

}  // namespace
}  // namespace ultra
