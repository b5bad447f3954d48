// Every algorithm of the chapter's table keeps the promise of its collective: any number of ranks,
// any count, any root.

#include "chapters/02_collectives/algorithms/all_to_all.hpp"

#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "chapters/02_collectives/steps.hpp"
#include "tests/support/contracts/collective_trial.hpp"
#include "tests/support/contracts/schedule_interpreter.hpp"
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

// The interpreter is the oracle of the chapter's algorithms: it must notice what an executor may
// survive by luck.

using collectives::exchange_step;
using collectives::local_step;
using collectives::receive_step;
using collectives::send_step;
using comm::Block;
using comm::Buffer;
using comm::Lane;
using comm::OnReceive;
using comm::Schedule;
using test::Fault;
using test::Interpretation;

Interpretation<double> run(const std::vector<Schedule>& schedules) {
  std::vector<test::RankBuffers<double>> buffers;
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
    const double first = 10.0 * static_cast<double>(rank);
    buffers.push_back({.data = {first, first + 1, first + 2, first + 3}, .input = {first + 5}});
  }
  return test::interpret<double>(schedules, buffers);
}

Schedule lane(Lane steps) { return {.lanes = {std::move(steps)}}; }

constexpr Block kFirst{{0, 2}};
constexpr Block kSecond{{2, 4}};

TEST(ScheduleInterpreter, SeesThatAllSendAndNobodyReceives) {
  const auto result = run({lane({send_step(1, kFirst), receive_step(1, kSecond)}),
                           lane({send_step(0, kFirst), receive_step(0, kSecond)})});
  EXPECT_EQ(result.fault, Fault::kDeadlock);
  EXPECT_EQ(result.message,
            "deadlock: rank 0, step 1 of 2 (sends [0, 2) to rank 1) waits for rank 1 to receive; "
            "rank 1, step 1 of 2 (sends [0, 2) to rank 0) waits for rank 0 to receive; and so back "
            "to rank 0");
}

TEST(ScheduleInterpreter, SeesWhatIsOutsideOfTheBuffer) {
  EXPECT_EQ(run({lane({send_step(1, {{3, 5}})}), lane({receive_step(0, kFirst)})}).fault,
            Fault::kBadStep);
  EXPECT_EQ(run({lane({send_step(1, {{0, 1}, Buffer::kScratch})}), lane({})}).fault,
            Fault::kBadStep);
  EXPECT_EQ(run({lane({send_step(7, kFirst)}), lane({})}).fault, Fault::kBadStep);
  EXPECT_EQ(run({lane({local_step(0, kFirst, {{0, 1}, Buffer::kInput})}), lane({})}).fault,
            Fault::kBadStep);
}

TEST(ScheduleInterpreter, SeesThatAStepOverwritesWhatItSends) {
  const auto result = run({lane({exchange_step(1, kFirst, 1, {{1, 3}})}),
                           lane({exchange_step(0, kFirst, 0, kSecond)})});
  EXPECT_EQ(result.fault, Fault::kRace);
  EXPECT_THAT(result.message, HasSubstr("rank 0, step 1 of 1"));
}

TEST(ScheduleInterpreter, SeesThatLanesTouchTheSameElements) {
  const Schedule both_write{.lanes = {{receive_step(1, kFirst)}, {receive_step(1, {{1, 3}})}}};
  const Schedule one_reads{.lanes = {{receive_step(1, kFirst)}, {send_step(1, {{1, 3}})}}};
  const Schedule apart{.lanes = {{receive_step(1, kFirst)}, {receive_step(1, kSecond)}}};
  const Schedule sends{.lanes = {{send_step(0, kFirst)}, {send_step(0, kSecond)}}};
  EXPECT_EQ(run({both_write, sends}).fault, Fault::kRace);
  EXPECT_EQ(run({one_reads, sends}).fault, Fault::kRace);
  EXPECT_EQ(run({apart, sends}).fault, Fault::kNone);
}

}  // namespace
}  // namespace ultra
