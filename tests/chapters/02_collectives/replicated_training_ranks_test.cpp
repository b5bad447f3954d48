// The chapter's promise, through whole training runs: N ranks compute what one rank computes.

#include "chapters/02_collectives/replicated_training.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/base/errors.hpp"
#include "tests/chapters/02_collectives/replicated_run.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"
#include "tests/support/random_run.hpp"

namespace ultra::collectives {
namespace {

using test::RankRun;
using test::run_alone;
using test::run_replicated;
using ::testing::AllOf;
using ::testing::HasSubstr;
using train::test::expect_same_on_all;
using train::test::quietly;
using ::ultra::test::largest_magnitude;

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

void expect_equal_losses(const RankRun& actual, const RankRun& expected, double relative) {
  ASSERT_EQ(actual.result.steps.size(), expected.result.steps.size());
  for (std::size_t i = 0; i < expected.result.steps.size(); ++i) {
    const train::StepMetrics& a = actual.result.steps[i];
    const train::StepMetrics& e = expected.result.steps[i];
    EXPECT_LE(std::abs(a.loss - e.loss), relative * std::abs(e.loss)) << "step " << e.step;
  }
}

void expect_equal_weights(const RankRun& actual, const RankRun& expected, double relative) {
  ASSERT_EQ(actual.weights.size(), expected.weights.size());
  for (std::size_t p = 0; p < expected.weights.size(); ++p) {
    const double scale = largest_magnitude(expected.weights[p]);
    ASSERT_EQ(actual.weights[p].size(), expected.weights[p].size());
    double worst = 0;
    for (std::size_t i = 0; i < expected.weights[p].size(); ++i) {
      worst = std::max(worst, std::abs(actual.weights[p][i] - expected.weights[p][i]));
    }
    EXPECT_LE(worst, relative * scale) << "parameter " << p;
  }
}

/// Losses, norms and weights of all replicas are the same, bit for bit. Collective.
void expect_equal_replicas(const Communicator& world, const RankRun& run) {
  std::vector<double> all;
  for (const train::StepMetrics& step : run.result.steps) {
    all.push_back(step.loss);
    all.push_back(step.grad_norm);
  }
  for (const std::vector<double>& weights : run.weights) {
    all.insert(all.end(), weights.begin(), weights.end());
  }
  expect_same_on_all(world, all);
}

class Replicated : public ultra::test::RandomTest {
 protected:
  /// A legal run for `ranks` ranks, with one or more micro-batches on each.
  train::TrainOptions random_run(int ranks) {
    train::TrainOptions options = ultra::test::random_run(random, seed, ranks, DType::kF32);
    options.micro_batch = random.between(1, 3);
    options.global_batch =
        static_cast<std::size_t>(ranks) * options.micro_batch * random.between(1, 3);
    return options;
  }

  /// Calls `fn` on each rank, quietly.
  static void on_ranks(int ranks, const train::TrainOptions& options,
                       const RankOptions& rank_options,
                       const std::function<void(Communicator& world)>& fn) {
    SCOPED_TRACE(rank_options.algorithms ? "by schedules" : "by the platform's collectives");
    SCOPED_TRACE(describe(ranks, options));
    quietly([&] { run_ranks(ranks, fn, rank_options); });
    if (HasFailure()) std::printf("%s\n", describe(ranks, options).c_str());
  }

  static std::string describe(int ranks, const train::TrainOptions& o) {
    return fmt::format("{} ranks, L {} h {} a {} kv {} f {} s {}, micro-batch {} of {}, clip {}",
                       ranks, o.model.num_layers, o.model.hidden_size, o.model.num_heads,
                       o.model.num_kv_heads, o.model.ffn_hidden_size, o.model.max_seq_len,
                       o.micro_batch, o.global_batch, o.clip_norm);
  }
};

TEST_F(Replicated, TrainingEqualsOneRankInF64) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const RankOptions& rank_options : {with_book(), with(nullptr)}) {
      train::TrainOptions options = random_run(ranks);
      options.dtype = DType::kF64;
      on_ranks(ranks, options, rank_options, [&](Communicator& world) {
        const RankRun run = run_replicated(world, options);
        const RankRun one = run_alone(world, options);
        expect_equal_losses(run, one, 1e-10);
        expect_equal_weights(run, one, 1e-10);
        expect_equal_replicas(world, run);
      });
    }
  }
}

TEST_F(Replicated, TrainingEqualsOneRankInF32) {
  for (const int ranks : {2, 3, 4}) {
    train::TrainOptions options = random_run(ranks);
    options.steps = 20;
    on_ranks(ranks, options, with_book(), [&](Communicator& world) {
      const RankRun run = run_replicated(world, options);
      expect_equal_losses(run, run_alone(world, options), 1e-5);
      expect_equal_replicas(world, run);
    });
  }
}

TEST_F(Replicated, ClippingSeesTheGlobalGradient) {
  train::TrainOptions options = random_run(3);
  options.dtype = DType::kF64;
  options.clip_norm = 1e-3;
  on_ranks(3, options, with_book(), [&](Communicator& world) {
    const RankRun one = run_alone(world, options);
    ASSERT_GT(one.result.steps[0].grad_norm, 1e-3) << "the clip must bind";
    const RankRun three = run_replicated(world, options);
    for (std::size_t i = 0; i < options.steps; ++i) {
      const double norm = one.result.steps[i].grad_norm;
      EXPECT_NEAR(three.result.steps[i].grad_norm, norm, 1e-9 * norm);
    }
    expect_equal_weights(three, one, 1e-10);
  });
}

TEST_F(Replicated, TheWayThatCollectivesTakeChangesOnlyRoundings) {
  train::TrainOptions options = random_run(4);
  options.dtype = DType::kF64;
  on_ranks(4, options, with_rings(), [&](Communicator& world) {
    const RankRun rings = run_replicated(world, options);
    expect_equal_weights(run_replicated(world.with_algorithms(nullptr), options), rings, 1e-10);
    EXPECT_EQ(run_replicated(world, options).weights, rings.weights)
        << "the same way is the same run, bitwise";
  });
}

TEST_F(Replicated, SentBytesAreTheClosedForm) {
  for (const int ranks : {1, 2, 3, 4}) {
    train::TrainOptions options = random_run(ranks);
    options.dtype = random.pick({DType::kF32, DType::kF64});
    on_ranks(ranks, options, with_rings(), [&](Communicator& world) {
      const train::TrainResult result = run_replicated(world, options).result;
      const std::size_t gradient_bytes = result.parameters * size_of(options.dtype);
      const std::size_t loss_bytes = sizeof(double);
      const auto others = static_cast<std::size_t>(ranks) - 1;
      std::size_t sent = 0;
      for (const train::RankSummary& rank : result.ranks) {
        sent += rank.communication[OpKind::kAllReduce].sent_bytes;
        EXPECT_EQ(rank.communication.sent_bytes(),
                  rank.communication[OpKind::kAllReduce].sent_bytes)
            << "nothing else is sent";
      }
      // 2 (N-1)/N n on the average of the ranks: chunks that differ by one element shift the rest.
      EXPECT_EQ(sent, options.steps * 2 * others * (gradient_bytes + loss_bytes));
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
    EXPECT_EQ(share_of(12, world), (Range{4 * rank, 4 * rank + 4}));
  });
}

TEST(Shares, MustBeEqual) {
  EXPECT_NO_THROW(expect_equal_shares(12, 2, 3));
  EXPECT_NO_THROW(expect_equal_shares(12, 4, 3));
  EXPECT_THAT(ultra::test::message_of<ConfigError>([] { expect_equal_shares(16, 4, 3); }),
              AllOf(HasSubstr("16 % (3 * 4) = 4"), HasSubstr("multiple of 12")));
  EXPECT_THROW(expect_equal_shares(2, 1, 4), ConfigError) << "fewer sequences than ranks";
}

TEST(AverageGradients, AveragesEveryParameter) {
  run_ranks(3, [](Communicator& world) {
    const Device device = Device::cpu();
    nn::DenseFactory factory;
    const nn::Model model(ultra::test::short_run().model, device, DType::kF64, 1, factory);
    for (nn::Parameter* parameter : model.parameters()) {
      parameter->add_grad([&](const Tensor& grad, ops::Write) { grad.fill(1.0 + world.rank()); });
    }
    average_gradients(model, world);
    for (const nn::Parameter* parameter : model.parameters()) {
      for (const double value : parameter->grad().to_vector()) ASSERT_EQ(value, 2.0);
    }
    EXPECT_EQ(average(10.0 * world.rank(), device, world), 10.0);
  });
}

}  // namespace
}  // namespace ultra::collectives
