#include "chapters/04_zero/sharded_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "chapters/04_zero/zero_step.hpp"
#include "common/base/errors.hpp"
#include "common/train/update.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/compare.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;
using data_parallel::Pass;
using ::testing::HasSubstr;
using ultra::test::message_of;
using ultra::test::Random;

/// One rank's sharded model; and a plain one of the same weights.
struct Rank {
  Rank(const Communicator& dp, const ZeroCase& c)
      : groups(make_shard_groups(dp, c.node_size)),
        model(c.options.model, device, c.options.dtype, c.options.seed, factory,
              nn::StageSpec::whole(c.options.model), nn::Values::kDeferred),
        plain(c.options.model, Device::cpu(), c.options.dtype, c.options.seed, factory),
        sharded(shard_model(model, groups, c.settings)),
        random(c.options.seed + static_cast<std::uint64_t>(dp.rank())) {}

  /// Passes over micro-batches of this rank's own, by both models.
  void pass(int micro_batches = 1) {
    const nn::ModelConfig& config = model.config();
    for (int m = 1; m <= micro_batches; ++m) {
      const ultra::test::MicroBatch batch =
          ultra::test::random_micro_batch(random, device, config, 2, config.max_seq_len);
      sharded->sync().begin(m == micro_batches ? Pass::kSynchronize : Pass::kAccumulate);
      ultra::test::run_step(model, batch, 1.0);
      ultra::test::run_step(plain, batch, 1.0);
    }
    sharded->sync().finish();
  }

  /// The values, or gradients, of the pieces that this rank updates.
  [[nodiscard]] std::vector<double> own(Tensor optim::TensorUpdate::*which) const {
    std::vector<double> all;
    for (const optim::TensorUpdate& update : sharded->own()) {
      const std::vector<double> values = (update.*which).to_vector();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  [[nodiscard]] std::size_t in_use(MemoryCategory category) const {
    return device.memory().current()[category];
  }

  Device device = Device::cpu();
  nn::DenseFactory factory;
  ShardGroups groups;
  nn::Model model;
  nn::Model plain;
  std::unique_ptr<ShardedModel> sharded;
  Random random;
};

class ShardedModelTest : public ZeroTest {
 protected:
  /// Calls `fn` on the ranks of a random model in each stage.
  void in_each_stage(const std::function<void(const Communicator&, const ZeroCase&)>& fn,
                     Progress progress = Progress::kThread) {
    for (const ZeroStage stage : kSharded) {
      for (const int ranks : {1, 2, 3, 5}) {
        const ZeroCase c = draw(ranks, stage, random.pick({DType::kF32, DType::kF64}));
        on_ranks(
            c, [&](Communicator& dp) { fn(dp, c); }, in_rank_order(progress));
      }
    }
  }
};

TEST_F(ShardedModelTest, StartsWithTheModelsWeights) {
  in_each_stage([](const Communicator& dp, const ZeroCase& c) {
    Rank rank(dp, c);
    rank.pass();
    const auto weights = gathered(rank.own(&optim::TensorUpdate::value), c, rank.groups.shards);
    for (std::size_t p = 0; p < weights.size(); ++p) {
      const nn::Parameter& parameter = *rank.plain.parameters()[p];
      EXPECT_TRUE(weights[p] == parameter.value().to_vector()) << parameter.name();
    }
  });
}

TEST_F(ShardedModelTest, EachRankHasItsPartOfTheAverageGradient) {
  in_each_stage([](const Communicator& dp, const ZeroCase& c) {
    Rank rank(dp, c);
    rank.pass();
    const auto found = gathered(rank.own(&optim::TensorUpdate::grad), c, rank.groups.shards);
    for (std::size_t p = 0; p < found.size(); ++p) {
      const nn::Parameter& parameter = *rank.plain.parameters()[p];
      dp.all_reduce(parameter.grad(), ReduceOp::kAverage);
      EXPECT_TRUE(found[p] == parameter.grad().to_vector()) << parameter.name();
    }
  });
}

TEST_F(ShardedModelTest, EveryElementBelongsToOneRankAndDecaysAsItsParameterDoes) {
  in_each_stage([](const Communicator& dp, const ZeroCase& c) {
    Rank rank(dp, c);
    rank.pass();
    std::vector<double> decay;
    for (const optim::TensorUpdate& update : rank.sharded->own()) {
      EXPECT_EQ(update.value.shape(), update.grad.shape());
      decay.insert(decay.end(), update.value.numel(), update.decay ? 2.0 : 1.0);
    }
    const auto found = gathered(decay, c, rank.groups.shards);
    for (std::size_t p = 0; p < found.size(); ++p) {
      const nn::Parameter& parameter = *rank.model.parameters()[p];
      const std::vector<double> expected(parameter.count(), train::decays(parameter) ? 2.0 : 1.0);
      EXPECT_TRUE(found[p] == expected) << parameter.name();
    }
  });
}

TEST_F(ShardedModelTest, ThePiecesAreTheSameInEachStep) {
  in_each_stage([](const Communicator& dp, const ZeroCase& c) {
    Rank rank(dp, c);
    rank.pass();
    const std::vector<optim::TensorUpdate> first = rank.sharded->own();
    rank.sharded->drop_gradients();
    rank.pass(2);
    const std::vector<optim::TensorUpdate> second = rank.sharded->own();
    ASSERT_EQ(second.size(), first.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(second[i].value.shape(), first[i].value.shape());
      first[i].value.fill(static_cast<double>(i));
      EXPECT_TRUE(ultra::test::all_equal(second[i].value, first[i].value)) << "another place";
    }
  });
}

TEST_F(ShardedModelTest, WhatIsGatheredIsWhatTheModelComputesWith) {
  in_each_stage([](const Communicator& dp, const ZeroCase& c) {
    Rank rank(dp, c);
    const std::vector<Tensor>& whole = rank.sharded->whole();
    if (c.settings.stage == ZeroStage::kParameters) {
      EXPECT_TRUE(whole.empty());
      for (const nn::Parameter* parameter : rank.model.parameters()) {
        EXPECT_FALSE(parameter->has_value()) << parameter->name() << " before its pass";
      }
      return;
    }
    std::size_t padded = 0;
    for (const Tensor& flat : whole) {
      EXPECT_EQ(flat.numel() % static_cast<std::size_t>(c.ranks), 0U);
      padded += flat.numel();
      flat.fill(3);
    }
    EXPECT_EQ(padded * size_of(c.options.dtype), rank.in_use(MemoryCategory::kParameters));
    for (const nn::Parameter* parameter : rank.model.parameters()) {
      const std::vector<double> expected(parameter->count(), 3.0);
      EXPECT_TRUE(ultra::test::all_equal(parameter->value(), expected)) << parameter->name();
    }
  });
}

TEST_F(ShardedModelTest, AStepOfAllShardsIsTheStepOfTheModel) {
  in_each_stage([](const Communicator& dp, const ZeroCase& c) {
    Rank rank(dp, c);
    optim::AdamW adamw(optim::AdamWConfig{});
    optim::AdamW plain_adamw(optim::AdamWConfig{});
    for (int step = 0; step < 2; ++step) {
      rank.pass();
      const StepRule rule{.learning_rate = 0.1, .norm = 1, .clip_norm = 0};
      step_own_shard(rank.sharded->own(), rank.sharded->whole(), rule, adamw, rank.groups.shards);
      std::vector<optim::TensorUpdate> updates;
      for (const nn::Parameter* parameter : rank.plain.parameters()) {
        dp.all_reduce(parameter->grad(), ReduceOp::kAverage);
        updates.push_back({.value = parameter->value(),
                           .grad = parameter->grad(),
                           .decay = train::decays(*parameter)});
      }
      plain_adamw.step(updates, 0.1, 1.0);
      const auto weights = gathered(rank.own(&optim::TensorUpdate::value), c, rank.groups.shards);
      for (std::size_t p = 0; p < weights.size(); ++p) {
        EXPECT_TRUE(weights[p] == updates[p].value.to_vector()) << "step " << step;
      }
      rank.sharded->drop_gradients();
      rank.plain.drop_grads();
    }
  });
}

TEST_F(ShardedModelTest, GradientsAreFreedAndBuffersAreEmptyAfterAStep) {
  const auto check = [](const Communicator& dp, const ZeroCase& c) {
    Rank rank(dp, c);
    for (int step = 0; step < 2; ++step) {
      rank.pass(step + 1);
      EXPECT_GT(rank.in_use(MemoryCategory::kGradients), 0U);
      for (const nn::Parameter* parameter : rank.model.parameters()) {
        EXPECT_EQ(parameter->grad().defined(), !shards_gradients(c.settings.stage))
            << "only stage 1 leaves whole gradients: " << parameter->name();
        EXPECT_EQ(parameter->has_value(), !shards_parameters(c.settings.stage));
      }
      rank.sharded->drop_gradients();
      EXPECT_EQ(rank.in_use(MemoryCategory::kGradients), 0U);
      EXPECT_EQ(rank.in_use(MemoryCategory::kCommunication), 0U);
    }
  };
  in_each_stage(check, Progress::kOnCall);  // a progress thread may keep memory a moment longer
}

TEST_F(ShardedModelTest, Stage3NeverMakesAllWeights) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    const ZeroCase c = draw(ranks, ZeroStage::kParameters, DType::kF32);
    on_ranks(c, [&](Communicator& dp) {
      const Rank rank(dp, c);
      std::size_t shards = 0;
      for (const ParameterGroup& group : groups_by_part(rank.model, ranks)) {
        shards += group.layout.shard;
      }
      EXPECT_EQ(rank.device.memory().peak(MemoryCategory::kParameters).bytes,
                shards * sizeof(float));
      EXPECT_EQ(rank.device.memory().peak(MemoryCategory::kCommunication).bytes, 0U)
          << "each rank makes its own initial weights";
    });
  }
}

TEST_F(ShardedModelTest, ReadingAWeightOutsideItsPassIsAnError) {
  const ZeroCase c = draw(2, ZeroStage::kParameters, DType::kF32);
  on_ranks(c, [&](Communicator& dp) {
    const Rank rank(dp, c);
    const nn::Parameter& parameter = *rank.model.parameters().front();
    EXPECT_THAT(message_of<InternalError>([&] { static_cast<void>(parameter.value()); }),
                ::testing::AllOf(HasSubstr(parameter.name()), HasSubstr("are not on this rank")));
  });
}

TEST_F(ShardedModelTest, AModelThatIsNotShardedHasNoShards) {
  ZeroCase c = draw(1, ZeroStage::kParameters, DType::kF32);
  c.settings.stage = ZeroStage::kNone;
  on_ranks(c, [&](Communicator& dp) {
    EXPECT_THAT(message_of<InternalError>([&] { const Rank rank(dp, c); }),
                HasSubstr("stage from 1 to 3"));
  });
}

}  // namespace
}  // namespace ultra::zero
