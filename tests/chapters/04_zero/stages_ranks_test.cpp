#include "chapters/04_zero/stages.hpp"

#include "chapters/03_data_parallel/gradient_completion.hpp"
#include "common/train/gradients/gradient_ledger.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

/// One rank's sharded model, whose steps are of so many micro-batches.
struct StagesRank {
  StagesRank(const Communicator& dp, const ZeroCase& c, std::size_t micro_batches = 1)
      : groups(make_shard_groups(dp, c.node_size)),
        schedule(memory::accumulation_schedule(micro_batches)),
        model(c.options.model, device, c.options.dtype, c.options.seed, factory,
              nn::StageSpec::whole(c.options.model), nn::Values::kDeferred),
        sharded(shard_model(ShardedScope::whole(model, schedule), groups, c.settings)),
        ledger({&model}, {{.parameters = model.parameters(), .exchange = sharded->exchange()}},
               data_parallel::completing_action),
        random(c.options.seed + static_cast<std::uint64_t>(dp.rank())) {}

  /// Passes over micro-batches of this rank's own.
  void pass() {
    const nn::ModelConfig& config = model.config();
    ledger.step_begins(schedule);
    for (std::size_t action = 0; action < schedule.size(); ++action) {
      ledger.action_begins(action);
      if (schedule[action].makes_gradients()) {  // the forward pass before it is part of it here
        const MicroBatch batch = random_micro_batch(random, device, config, 2, config.max_seq_len);
        run_step(model, batch, 1.0);
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
  std::unique_ptr<ShardedModel> sharded;
  train::GradientLedger ledger;
  Random random;
};

using ShardedModelTest = ZeroTest;

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
  for (const ZeroStage stage : kSharded) {
    for (const int ranks : {1, 2, 3, 5}) {
      const ZeroCase c = draw(ranks, stage, random.pick({DType::kF32, DType::kF64}));
      // A progress thread may keep memory a moment longer.
      on_ranks(
          c, [&](Communicator& dp) { check(dp, c); }, in_rank_order(Progress::kOnCall));
    }
  }
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
