// Contract of exercise 03.4: the last action that adds to a gradient, in schedules of every kind;
// and a step that is one rank's and sends each gradient once.
#include "chapters/03_data_parallel/gradient_completion.hpp"

#include <fmt/ranges.h>

#include <set>

#include "chapters/03_data_parallel/bucketed_gradients.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/exercises/03_data_parallel/replica.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/schedules.hpp"

namespace ultra::data_parallel {
namespace {

using test::Gradients;
using test::Replica;
using ultra::test::schedule_of;

constexpr const char* kLast =
    "Hint: the micro-batches' gradients add up. A gradient is complete when the last action has "
    "added to it, not the first: what has left must not change any more.";
constexpr const char* kOrder =
    "Hint: the order of the schedule says which action is the last, not the micro-batch's number.";
constexpr const char* kOwn =
    "Hint: only the passes of its own chunks add to a parameter's gradient: it need not wait for "
    "other chunks.";
constexpr const char* kWeights =
    "Hint: B makes the gradient of the chunk's input alone; the gradients of its weights are made "
    "by W.";
constexpr const char* kEach =
    "Hint: a parameter that several chunks use gets a contribution from each of them: it is "
    "complete behind the last of them all.";

struct Case {
  const char* schedule;
  std::vector<std::size_t> chunks;
  const char* completing;
  const char* hint;
};

TEST(GradientCompletion, IsTheLastActionThatAddsToTheGradient) {
  const std::vector<Case> cases = {
      {"F0 BW0", {0}, "BW0", kLast},
      // Gradient accumulation; one forward, one backward; backward passes in another order.
      {"F0 BW0 F1 BW1", {0}, "BW1", kLast},
      {"F0 BW0 F1 BW1 F2 BW2 F3 BW3", {0}, "BW3", kLast},
      {"F0 F1 BW0 F2 BW1 F3 BW2 BW3", {0}, "BW3", kLast},
      {"F0 F1 F2 BW2 BW0 BW1", {0}, "BW1", kOrder},
      {"F0 F1 BW1 BW0", {0}, "BW0", kOrder},
      // Two chunks of a rank, as a V and in turns.
      {"F0 F0.1 BW0.1 BW0", {0}, "BW0", kOwn},
      {"F0 F0.1 BW0.1 BW0", {1}, "BW0.1", kOwn},
      {"F0 F1 F0.1 F1.1 BW0.1 BW1.1 BW0 BW1", {1}, "BW1.1", kOwn},
      {"F0 F1 F0.1 F1.1 BW0.1 BW1.1 BW0 BW1", {0}, "BW1", kOwn},
      {"F0 F0.1 BW0.1 F1 BW0 F1.1 BW1.1 BW1", {1}, "BW1.1", kOwn},
      // B and W apart: the input's gradient is early, those of the weights come when there is time.
      {"F0 B0 W0", {0}, "W0", kWeights},
      {"F0 B0 F1 B1 W0 W1", {0}, "W1", kWeights},
      {"F0 F1 B0 B1 W1 W0", {0}, "W0", kWeights},
      {"F0 F1 B0 W0 BW1", {0}, "BW1", kWeights},
      {"F0 F1 BW0 B1 W1", {0}, "W1", kWeights},
      {"F0 F0.1 B0.1 B0 W0.1 W0", {1}, "W0.1", kWeights},
      // A weight that two chunks share.
      {"F0 F0.1 BW0.1 BW0", {0, 1}, "BW0", kEach},
      {"F0 F0.1 BW0.1 BW0", {1, 0}, "BW0", kEach},
      {"F0 F0.1 B0.1 B0 W0 W0.1", {0, 1}, "W0.1", kEach},
      {"F0 F0.1 F0.2 BW0.2 BW0.1 BW0", {1, 2}, "BW0.1", kEach},
  };
  for (const Case& c : cases) {
    const train::StepSchedule schedule = schedule_of(c.schedule);
    const std::size_t found = completing_action(schedule, c.chunks);
    EXPECT_EQ(found < schedule.size() ? schedule[found].str() : "no action", c.completing)
        << "of " << c.schedule << ", chunks " << fmt::format("{}", fmt::join(c.chunks, " and "))
        << "\n"
        << c.hint;
  }
}

TEST(GradientCompletion, WithoutSuchAnActionIsAnError) {
  const std::vector<std::size_t> chunks = {0};
  // Nothing; other chunks; forward passes alone; no pass backward of this chunk.
  for (const char* schedule : {"", "F0.1 BW0.1", "F0 F1", "F0 F0.1 BW0.1"}) {
    EXPECT_THROW(static_cast<void>(completing_action(schedule_of(schedule), chunks)), InternalError)
        << "of '" << schedule << "'\n"
        << "Hint: throw InternalError when no action of the schedule makes gradients of these "
           "chunks.";
  }
}

class GradientCompletionOnRanks : public ultra::test::RandomTest {
 protected:
  static constexpr std::size_t kMicroBatches[] = {1, 2, 3, 100};

  data::Dataset text = test::random_text(random);
  nn::ModelConfig config = test::random_config(random);
};

TEST_F(GradientCompletionOnRanks, ReplicasMakeTheStepOfOneRank) {
  for (const std::size_t micro_batch : kMicroBatches) {
    const std::size_t batch = random.pick({7U, 8U, 4U});
    const data::Sampler global(text, config.max_seq_len, batch, seed);
    const Gradients expected = test::on_one_device(config, DType::kF64, seed, global);
    const std::string what =
        fmt::format("{} sequences on 3 replicas, micro-batch {}\n{}", batch, micro_batch, kLast);
    run_ranks(3, [&](Communicator& dp) {
      Replica replica(config, DType::kF64, seed);
      const auto exchange = sum_in_buckets(replica.model.parameters(), 100, Flush::kWhenReady,
                                           all_reduce_exchange(dp));
      double loss = test::Followed(replica.model, *exchange).step(global, dp, micro_batch);
      train::sum_over(dp, {&loss, 1});
      EXPECT_NEAR(loss, expected.loss, 1e-10 * expected.loss) << what;
      test::expect_gradients(replica.model, expected, 1e-10, what);
    });
    if (HasFailure()) return;
  }
}

TEST_F(GradientCompletionOnRanks, AStepSendsEachGradientOnceHoweverManyMicroBatchesThereAre) {
  const data::Sampler global(text, config.max_seq_len, 7, seed);
  run_ranks(3, [&](Communicator& dp) {
    std::set<std::size_t> sent;
    std::set<std::size_t> operations;
    for (const std::size_t micro_batch : kMicroBatches) {
      Replica replica(config, DType::kF64, seed);
      const auto exchange =
          sum_in_buckets(replica.model.parameters(), 0, Flush::kWhenReady, all_reduce_exchange(dp));
      const CommStats before = dp.stats();
      test::Followed(replica.model, *exchange).step(global, dp, micro_batch);
      const CommStats after = dp.stats();
      sent.insert(after.sent_bytes() - before.sent_bytes());
      operations.insert(after[OpKind::kAllReduce].operations -
                        before[OpKind::kAllReduce].operations);
    }
    EXPECT_EQ(sent.size(), 1U) << "bytes of a step\n" << kLast;
    EXPECT_EQ(operations.size(), 1U) << "all-reduces of a step\n" << kLast;
  });
}

}  // namespace
}  // namespace ultra::data_parallel
