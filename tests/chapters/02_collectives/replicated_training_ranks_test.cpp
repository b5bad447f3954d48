// The chapter's promise, through whole training runs: N ranks compute what one rank computes.

#include "chapters/02_collectives/replicated_training.hpp"

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/base/numeric.hpp"
#include "tests/chapters/02_collectives/replicated_run.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/mesh_case.hpp"

namespace ultra::collectives {
namespace {

using test::run_alone;
using test::run_replicated;
using ultra::test::expect_near_losses;
using ultra::test::expect_near_weights;
using ultra::test::RankRun;

RankOptions with(std::shared_ptr<const comm::CollectiveAlgorithms> algorithms) {
  RankOptions options;
  options.algorithms = std::move(algorithms);
  return options;
}

RankOptions with_book() { return with(std::make_shared<const BookAlgorithms>()); }

RankOptions with_rings() {
  return with(std::make_shared<const BookAlgorithms>(
      BookOptions{.names = {{OpKind::kAllReduce, "ring"}}, .tuning = {}}));
}

/// Losses, norms and weights of all replicas are the same, bit for bit. Collective.
void expect_equal_replicas(const Communicator& world, const RankRun& run) {
  std::vector<double> all = ultra::test::losses_and_norms(run.result);
  for (const std::vector<double>& weights : run.own) {
    all.insert(all.end(), weights.begin(), weights.end());
  }
  ultra::test::expect_same_on_all(world, all);
}

class Replicated : public ultra::test::RandomTest {
 protected:
  /// A legal run for `ranks` ranks, with one or more micro-batches on each.
  train::TrainOptions random_run(std::size_t ranks) {
    train::TrainOptions options = ultra::test::random_run(random, seed, ranks, DType::kF32);
    options.micro_batch = random.between(1, 3);
    options.global_batch = ranks * options.micro_batch * random.between(1, 3);
    return options;
  }

  /// Calls `fn` on each rank, quietly.
  static void on_ranks(std::size_t ranks, const train::TrainOptions& options,
                       const RankOptions& rank_options,
                       const std::function<void(Communicator& world)>& fn) {
    ultra::test::run_quietly(
        fmt::format("{} ranks {}, {}", ranks,
                    rank_options.algorithms ? "by schedules" : "by the platform's collectives",
                    ultra::test::text_of(options, options.micro_batch)),
        checked_cast<int>(ranks), fn, rank_options);
  }
};

TEST_F(Replicated, TrainingEqualsOneRankInF64) {
  for (const std::size_t ranks : {1U, 2U, 3U, 4U}) {
    for (const RankOptions& rank_options : {with_book(), with(nullptr)}) {
      train::TrainOptions options = random_run(ranks);
      options.dtype = DType::kF64;
      on_ranks(ranks, options, rank_options, [&](Communicator& world) {
        const RankRun run = run_replicated(world, options);
        const RankRun one = run_alone(world, options);
        expect_near_losses(run, one, 1e-10);
        expect_near_weights(run, one, 1e-10);
        expect_equal_replicas(world, run);
      });
    }
  }
}

TEST_F(Replicated, SentBytesAreTheClosedForm) {
  for (const std::size_t ranks : {1U, 2U, 3U, 4U}) {
    train::TrainOptions options = random_run(ranks);
    options.dtype = random.pick({DType::kF32, DType::kF64});
    on_ranks(ranks, options, with_rings(), [&](Communicator& world) {
      const train::TrainResult result = run_replicated(world, options).result;
      const std::size_t gradient_bytes = result.parameters * size_of(options.dtype);
      const std::size_t tensors = 9 * options.model.num_layers + 3;
      const std::size_t figure_bytes = sizeof(double) * (tensors + 1);
      std::size_t sent = 0;
      for (const train::RankSummary& rank : result.ranks) {
        sent += rank.communication[OpKind::kAllReduce].sent_bytes;
        EXPECT_EQ(rank.communication.sent_bytes(),
                  rank.communication[OpKind::kAllReduce].sent_bytes)
            << "nothing else is sent";
      }
      // 2 (N-1)/N n on the average of the ranks: chunks that differ by one element shift the rest.
      EXPECT_EQ(sent, options.steps * 2 * (ranks - 1) * (gradient_bytes + figure_bytes))
          << "the gradients; loss and squares of gradients by tensor";
    });
  }
}

TEST_F(Replicated, RanksEachHoldWhatOneRankHolds) {
  const train::TrainOptions options = random_run(2);
  on_ranks(2, options, with_book(), [&](Communicator& world) {
    const train::TrainResult one = run_alone(world, options).result;
    const train::TrainResult two = run_replicated(world, options).result;
    for (const MemoryCategory category :
         {MemoryCategory::kParameters, MemoryCategory::kGradients, MemoryCategory::kOptimizer,
          MemoryCategory::kActivations}) {
      EXPECT_EQ(two.ranks[1].memory.peak(category).bytes, one.ranks[0].memory.peak(category).bytes)
          << to_string(category) << ": replication saves no memory";
    }
  });
}

TEST(Shares, FollowEachOtherInTheOrderOfTheRanks) {
  run_ranks(3, [&](Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    EXPECT_EQ(equal_share(12, world), (Range{4 * rank, 4 * rank + 4}));
  });
}

TEST(Shares, MustBeEqual) {
  EXPECT_NO_THROW(expect_equal_shares(12, 2, 3));
  EXPECT_NO_THROW(expect_equal_shares(12, 4, 3));
  EXPECT_THAT(ultra::test::message_of<ConfigError>([] { expect_equal_shares(16, 4, 3); }),
              AllOf(HasSubstr("16 % (3 * 4) = 4"), HasSubstr("multiple of 12")));
  EXPECT_THROW(expect_equal_shares(2, 1, 4), ConfigError) << "fewer sequences than ranks";
  run_ranks(3, [&](Communicator& world) {
    EXPECT_THROW(static_cast<void>(equal_share(16, world)), ConfigError);
  });
}

TEST(SumGradients, AddsUpEveryParameterWhenTheBackwardPassIsOver) {
  run_ranks(3, [](Communicator& world) {
    nn::DenseFactory factory;
    const nn::Model model(ultra::test::short_run().model, Device::cpu(), DType::kF64, 1, factory);
    const auto set_gradients = [&] {
      for (nn::Parameter* parameter : model.parameters()) {
        parameter->drop_grad();
        parameter->add_grad([&](const Tensor& grad, ops::Write) { grad.fill(1.0 + world.rank()); });
      }
    };
    const auto expect_sums = [&](double sum) {
      for (const nn::Parameter* parameter : model.parameters()) {
        for (const double value : parameter->grad().to_vector()) ASSERT_EQ(value, sum);
      }
    };
    set_gradients();
    sum_gradients(model.parameters(), world);
    expect_sums(6.0);
    const auto exchange = sum_after_backward(model.parameters(), world);
    exchange->step_begins();
    set_gradients();
    expect_sums(1.0 + world.rank());
    exchange->finish();
    expect_sums(6.0);
  });
}

}  // namespace
}  // namespace ultra::collectives
