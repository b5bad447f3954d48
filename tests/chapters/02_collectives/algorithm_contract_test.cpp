// Every algorithm of the chapter's table keeps the promise of its collective: any number of ranks,
// any count, any root.

#include "chapters/02_collectives/algorithms/all_to_all.hpp"
#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "tests/support/contracts/collective_trial.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

using collectives::CollectiveRequest;
using collectives::NamedAlgorithm;
using collectives::Tuning;
using comm::Chunks;
using comm::Group;
using test::CollectiveTrial;
using test::TrialCase;
using Matrix = std::vector<std::vector<std::size_t>>;

std::vector<std::size_t> column_of(const Matrix& counts, int to) {
  std::vector<std::size_t> column;
  for (const auto& row : counts) column.push_back(row[static_cast<std::size_t>(to)]);
  return column;
}

/// Dials that suit groups of this size, and segments enough to fill a pipeline.
Tuning tuning_for(test::Random& random, int size) {
  Tuning tuning{.segments = static_cast<int>(random.between(1, 5))};
  for (int per_node = 1; per_node <= size / 2; ++per_node) {
    if (size % per_node == 0) tuning.ranks_per_node = per_node;
  }
  return tuning;
}

/// Whether a trial keeps its collective's promise for these chunks, or for all of them.
::testing::AssertionResult kept(OpKind op, CollectiveTrial& trial, const Chunks& chunks, int root) {
  const std::size_t count = chunks.whole().end;
  return op == OpKind::kBroadcast   ? trial.broadcast(count, root)
         : op == OpKind::kReduce    ? trial.reduce(count, root)
         : op == OpKind::kGather    ? trial.gather(chunks, root)
         : op == OpKind::kScatter   ? trial.scatter(chunks, root)
         : op == OpKind::kAllGather ? trial.all_gather(chunks)
         : op == OpKind::kBarrier   ? trial.barrier()
                                    : trial.reduce_scatter(chunks);
}

class EveryAlgorithm : public test::RandomTest {
 protected:
  CollectiveTrial trial_of(OpKind op, const NamedAlgorithm& algorithm, const TrialCase& c,
                           int root = 0) {
    const Tuning tuning = tuning_for(random, c.members.size());
    return CollectiveTrial(c.members, [&](const Group& group) {
      CollectiveRequest request = CollectiveRequest::of(op, group, c.count, tuning);
      request.root = root;
      return algorithm.schedule(request);
    });
  }

  CollectiveTrial all_to_all_trial(const NamedAlgorithm& algorithm, const TrialCase& c,
                                   const Matrix& counts) {
    return CollectiveTrial(c.members, [&](const Group& group) {
      return algorithm.schedule({.group = group,
                                 .chunks = Chunks::of(counts[static_cast<std::size_t>(group.rank)]),
                                 .received = Chunks::of(column_of(counts, group.rank))});
    });
  }

  /// Calls check(algorithm, case) for all algorithms of an operation that suit the case.
  template <class Check>
  void for_algorithms(OpKind op, const Check& check) {
    for (const NamedAlgorithm& algorithm : collectives::algorithms(op)) {
      SCOPED_TRACE(fmt::format("{} by {}", to_string(op), algorithm.name));
      int suited = 0;
      test::for_trial_cases(random, test::kGroupSizes, [&](const TrialCase& c) {
        const int size = c.members.size();
        const std::size_t count =
            op == OpKind::kAllToAll ? c.count * static_cast<std::size_t>(size) : c.count;
        const CollectiveRequest request =
            CollectiveRequest::of(op, Group::all(0, size), count, tuning_for(random, size));
        if (algorithm.why_not(request).empty()) {
          ++suited;
          check(algorithm, c);
        } else {
          EXPECT_THROW(static_cast<void>(algorithm.schedule(request)), ConfigError);
        }
      });
      EXPECT_GT(suited, 0);
    }
  }
};

TEST_F(EveryAlgorithm, AllReduces) {
  for_algorithms(OpKind::kAllReduce, [&](const NamedAlgorithm& algorithm, const TrialCase& c) {
    CollectiveTrial trial = trial_of(OpKind::kAllReduce, algorithm, c);
    EXPECT_TRUE(trial.all_reduce(c.count));
    EXPECT_TRUE(trial.same_bits_everywhere(c.count, random));
  });
}

TEST_F(EveryAlgorithm, ServesAllAlike) {
  for (const OpKind op : {OpKind::kReduceScatter, OpKind::kAllGather, OpKind::kBarrier}) {
    for_algorithms(op, [&](const NamedAlgorithm& algorithm, const TrialCase& c) {
      CollectiveTrial trial = trial_of(op, algorithm, c);
      EXPECT_TRUE(kept(op, trial, Chunks::even({0, c.count}, trial.size()), 0));
    });
  }
}

TEST_F(EveryAlgorithm, ServesEveryRoot) {
  for (const OpKind op : {OpKind::kBroadcast, OpKind::kReduce, OpKind::kGather, OpKind::kScatter}) {
    for_algorithms(op, [&](const NamedAlgorithm& algorithm, const TrialCase& c) {
      for (int root = 0; root < c.members.size(); ++root) {
        SCOPED_TRACE(fmt::format("root {}", root));
        CollectiveTrial trial = trial_of(op, algorithm, c, root);
        EXPECT_TRUE(kept(op, trial, Chunks::even({0, c.count}, trial.size()), root));
        if (HasFailure()) return;
      }
    });
  }
}

TEST_F(EveryAlgorithm, ExchangesEqualParts) {
  for_algorithms(OpKind::kAllToAll, [&](const NamedAlgorithm& algorithm, const TrialCase& c) {
    const std::size_t size = c.members.ranks.size();
    const Matrix counts(size, std::vector<std::size_t>(size, c.count % 50));
    CollectiveTrial trial = all_to_all_trial(algorithm, c, counts);
    EXPECT_TRUE(trial.all_to_all(counts));
  });
}

TEST_F(EveryAlgorithm, TakesUnevenChunks) {
  for (const int size : test::kGroupSizes) {
    const TrialCase c{test::whole_world(size), 0};
    const Chunks chunks = test::random_chunks(random, size);
    const int root = static_cast<int>(random.between(0, c.members.ranks.size() - 1));
    for (const OpKind op :
         {OpKind::kGather, OpKind::kScatter, OpKind::kAllGather, OpKind::kReduceScatter}) {
      for (const NamedAlgorithm& algorithm : collectives::algorithms(op)) {
        SCOPED_TRACE(fmt::format("{} by {} of {} ranks", to_string(op), algorithm.name, size));
        const CollectiveRequest request{
            .group = Group::all(0, size), .chunks = chunks, .received = chunks, .root = root};
        if (!algorithm.why_not(request).empty()) continue;
        CollectiveTrial trial(c.members, [&](const Group& group) {
          CollectiveRequest own = request;
          own.group = group;
          return algorithm.schedule(own);
        });
        EXPECT_TRUE(kept(op, trial, chunks, root));
      }
    }
  }
}

TEST_F(EveryAlgorithm, PairwiseExchangesUnevenPartsAndBruckSaysThatItCannot) {
  for (const int size : {2, 3, 4, 7}) {
    Matrix counts(static_cast<std::size_t>(size));
    for (auto& row : counts) {
      for (int j = 0; j < size; ++j) row.push_back(random.between(0, 9));
    }
    counts[0][0] = 3;
    counts[0][1] = 10;
    const TrialCase c{test::whole_world(size), 0};
    CollectiveTrial trial =
        all_to_all_trial(collectives::find_algorithm(OpKind::kAllToAll, "pairwise"), c, counts);
    EXPECT_TRUE(trial.all_to_all(counts));
    const std::string message = message_of<ConfigError>([&] {
      return collectives::bruck_all_to_all(Group::all(0, size), Chunks::of(counts[0]),
                                           Chunks::of(column_of(counts, 0)));
    });
    EXPECT_EQ(message,
              "Bruck's all-to-all needs equal counts: 10 elements to rank 1, 3 to rank 0. Use "
              "'pairwise'.");
  }
}

}  // namespace
}  // namespace ultra
