#include "chapters/04_zero/stages.hpp"

#include "chapters/03_data_parallel/gradient_completion.hpp"
#include "common/train/gradients/gradient_ledger.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;
using ultra::test::Random;

/// One rank's sharded model, whose steps are of so many micro-batches; and a plain one of the same
/// weights.
struct StagesRank {
  StagesRank(const Communicator& dp, const ZeroCase& c, std::size_t micro_batches = 1)
      : groups(make_shard_groups(dp, c.node_size)),
        schedule(memory::accumulation_schedule(micro_batches)),
        model(c.options.model, device, c.options.dtype, c.options.seed, factory,
              nn::StageSpec::whole(c.options.model), nn::Values::kDeferred),
        plain(c.options.model, Device::cpu(), c.options.dtype, c.options.seed, factory),
        sharded(shard_model(ShardedScope::whole(model, schedule), groups, c.settings)),
        ledger({&model}, {{.parameters = model.parameters(), .exchange = sharded->exchange()}},
               data_parallel::completing_action),
        random(c.options.seed + static_cast<std::uint64_t>(dp.rank())) {}

  /// Passes over micro-batches of this rank's own, by both models.
  void pass() {
    const nn::ModelConfig& config = model.config();
    ledger.step_begins(schedule);
    for (std::size_t action = 0; action < schedule.size(); ++action) {
      ledger.action_begins(action);
      if (schedule[action].makes_gradients()) {  // the forward pass before it is part of it here
        const ultra::test::MicroBatch batch =
            ultra::test::random_micro_batch(random, device, config, 2, config.max_seq_len);
        ultra::test::run_step(model, batch, 1.0);
        ultra::test::run_step(plain, batch, 1.0);
      }
      ledger.action_ends();
    }
    ledger.step_ends();
    sharded->exchange()->finish();
  }

  [[nodiscard]] std::size_t in_use(MemoryCategory category) const {
    return device.memory().current()[category];
  }

  Device device = Device::cpu();
  nn::DenseFactory factory;
  ShardGroups groups;
  train::StepSchedule schedule;
  nn::Model model;
  nn::Model plain;
  std::unique_ptr<ShardedModel> sharded;
  train::GradientLedger ledger;
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

TEST_F(ShardedModelTest, ThePiecesAreTheSameInEachStep) {
  in_each_stage([](const Communicator& dp, const ZeroCase& c) {
    StagesRank rank(dp, c, 2);
    rank.pass();
    const std::vector<optim::TensorUpdate> first = rank.sharded->updates();
    rank.sharded->drop_gradients();
    rank.pass();
    const std::vector<optim::TensorUpdate> second = rank.sharded->updates();
    ASSERT_EQ(second.size(), first.size());
    ASSERT_EQ(rank.sharded->pieces().size(), first.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(rank.sharded->pieces()[i].elements.size(), first[i].value.numel());
      EXPECT_TRUE(rank.sharded->weights(i).shares_storage(first[i].value));
      EXPECT_EQ(second[i].value.shape(), first[i].value.shape());
      first[i].value.fill(static_cast<double>(i));
      EXPECT_TRUE(ultra::test::all_equal(second[i].value, first[i].value)) << "another place";
    }
  });
}

TEST_F(ShardedModelTest, WhatIsGatheredIsWhatTheModelComputesWith) {
  in_each_stage([](const Communicator& dp, const ZeroCase& c) {
    StagesRank rank(dp, c);
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

TEST_F(ShardedModelTest, GradientsAreFreedAndBuffersAreEmptyAfterAStep) {
  const auto check = [](const Communicator& dp, const ZeroCase& c) {
    StagesRank rank(dp, c, 2);
    for (int step = 0; step < 2; ++step) {
      rank.pass();
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
      StagesRank rank(dp, c);
      std::size_t shards = 0;
      for (const ParameterGroup& group : groups_of(rank.model, c)) {
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
    const StagesRank rank(dp, c);
    const nn::Parameter& parameter = *rank.model.parameters().front();
    EXPECT_THAT(message_of<InternalError>([&] { static_cast<void>(parameter.value()); }),
                ::testing::AllOf(HasSubstr(parameter.name()), HasSubstr("are not on this rank")));
  });
}

TEST_F(ShardedModelTest, AModelThatIsNotShardedHasNoShards) {
  ZeroCase c = draw(1, ZeroStage::kParameters, DType::kF32);
  c.settings.stage = ZeroStage::kNone;
  on_ranks(c, [&](Communicator& dp) {
    EXPECT_THAT(message_of<InternalError>([&] { const StagesRank rank(dp, c); }),
                HasSubstr("stage from 1 to 3"));
  });
}

}  // namespace
}  // namespace ultra::zero
