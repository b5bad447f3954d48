// The chapter's promise, through whole training runs: N replicas compute what one rank computes,
// whatever the shares, the micro-batches and the way in which gradients are added up.

#include "tests/chapters/02_collectives/replicated_run.hpp"
#include "tests/chapters/03_data_parallel/sync_ways.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/mesh_case.hpp"

namespace ultra::data_parallel {
namespace {

using namespace test;

/// The chapter's training, but for the way in which gradients are added up.
train::Setup setup_by(const MeshCase& c, const SyncWay& way) {
  train::Setup setup = c.setup();
  setup.techniques.push_back(putting([way](train::StepConfig& step_config) {
    step_config.exchange.claim(
        "a test", [way](const train::StatesScope& scope) { return way.make(scope.parameters); });
  }));
  return setup;
}

RankRun run_on(const Communicator& dp, const MeshCase& c, const SyncWay& way) {
  return run_of(setup_by(c, way), dp);
}

void expect_same_bits(const RankRun& actual, const RankRun& expected) {
  EXPECT_EQ(losses_and_norms(actual.result), losses_and_norms(expected.result));
  EXPECT_EQ(actual.weights, expected.weights);
  EXPECT_EQ(actual.own, expected.own);
}

class DataParallelTraining : public MeshTest {
 protected:
  MeshCase draw(std::size_t replicas, DType dtype) {
    MeshCase c = MeshTest::draw({.dp = replicas}, dtype);
    c.techniques = techniques;
    c.of_one_rank = collectives::test::of_one_rank;
    return c;
  }

  /// Seven sequences on three replicas in pairs: shares of 3, 2 and 2; 2 micro-batches each.
  MeshCase uneven(DType dtype) {
    MeshCase c = draw(3, dtype);
    c.micro_batch = 2;
    c.options.global_batch = 7;
    return c;
  }

  static void on_ranks(const MeshCase& c, const std::function<void(Communicator&)>& fn,
                       const RankOptions& options = in_rank_order()) {
    run_quietly(c.str(), c.ranks(), fn, options);
  }
};

TEST_F(DataParallelTraining, EqualsOneRankInF64) {
  for (std::size_t replicas = 1; replicas <= 5; ++replicas) {
    const MeshCase c = replicas == 3 ? uneven(DType::kF64) : draw(replicas, DType::kF64);
    for (const RankOptions& rank_options : {in_rank_order(), RankOptions()}) {
      on_ranks(
          c,
          [&](Communicator& dp) {
            const RankRun one = c.run_alone(dp);
            const std::vector<SyncWay> ways = all_ways(dp);
            for (const SyncWay& way : {ways.front(), ways[3], ways[5]}) {
              const RankRun run = run_on(dp, c, way);
              SCOPED_TRACE(way.name);
              expect_near_losses(run, one, 1e-10);
              expect_near_weights(run, one, 1e-10);
              expect_same_on_all(dp, losses_and_norms(run.result));
              for (const std::vector<double>& weight : run.own) expect_same_on_all(dp, weight);
            }
          },
          rank_options);
    }
  }
}

TEST_F(DataParallelTraining, EveryWayIsTheSameRunBitForBit) {
  for (std::size_t replicas = 1; replicas <= 5; ++replicas) {
    const DType dtype = random.pick({DType::kF32, DType::kF64});
    const MeshCase c = replicas == 3 ? uneven(dtype) : draw(replicas, dtype);
    on_ranks(c, [&](Communicator& dp) {
      const std::vector<SyncWay> ways = all_ways(dp);
      const RankRun expected = run_on(dp, c, ways.front());
      for (const SyncWay& way : ways) {
        const RankRun run = run_on(dp, c, way);
        SCOPED_TRACE(way.name);
        expect_same_bits(run, expected);
      }
      for (const auto& [flags, checks] :
           {std::pair("--overlap none --check-replicas 2", replicas > 1 ? c.options.steps / 2 : 0),
            std::pair("--overlap per-parameter", std::size_t{0}),
            std::pair("--overlap bucketed --bucket-mb 0.003", std::size_t{0})}) {
        MeshCase own_way = c;
        own_way.layout = flags;
        const RankRun run = own_way.run(dp);
        SCOPED_TRACE(flags);
        expect_same_bits(run, expected);
        EXPECT_EQ(run.result.ranks[0].communication[OpKind::kAllGather].operations, checks);
      }
    });
  }
}

TEST_F(DataParallelTraining, SendsGradientsAndALossWithNormsInEachStep) {
  for (std::size_t replicas = 1; replicas <= 5; ++replicas) {
    const MeshCase c = draw(replicas, random.pick({DType::kF32, DType::kF64}));
    on_ranks(c, [&](Communicator& dp) {
      const train::TrainResult result =
          train::train_with(setup_by(c, in_buckets(dp, kEverything)), dp);
      std::size_t sent = 0;
      const std::size_t operations = replicas == 1 ? 1 : 2;
      for (const train::RankSummary& rank : result.ranks) {
        EXPECT_EQ(rank.communication[OpKind::kAllReduce].operations, operations * c.options.steps)
            << "in each step a bucket; and the loss with the parameters' squared norms";
        EXPECT_EQ(rank.communication.sent_bytes(),
                  rank.communication[OpKind::kAllReduce].sent_bytes);
        sent += rank.communication.sent_bytes();
      }
      nn::DenseFactory dense;
      const std::size_t figures = nn::named_shapes(c.options.model, dense).size() + 1;
      const std::size_t gradient_bytes = result.parameters * size_of(c.options.dtype);
      EXPECT_EQ(sent,
                c.options.steps * 2 * (replicas - 1) * (gradient_bytes + figures * sizeof(double)));
    });
  }
}

TEST_F(DataParallelTraining, OneSetupTrainsModelAfterModel) {
  const MeshCase c = draw(2, DType::kF64);
  on_ranks(c, [&](Communicator& dp) {
    int made = 0;
    SyncWay counted = in_buckets(dp, 500);
    counted.make = [&made, make = counted.make](const std::vector<nn::Parameter*>& parameters) {
      ++made;
      return make(parameters);
    };
    const train::Setup setup = setup_by(c, counted);
    const train::TrainResult first = train::train_with(setup, dp);
    const train::TrainResult second = train::train_with(setup, dp);
    EXPECT_EQ(losses_and_norms(second), losses_and_norms(first));
    EXPECT_EQ(made, 2) << "one exchange for each model, not for each step";
  });
}

}  // namespace
}  // namespace ultra::data_parallel
