// The chapter's promise, through whole training runs: with every stage of ZeRO the ranks compute
// what plain data parallelism computes, bit for bit, and what one rank computes.
//
// Covers: chapters/04_zero/zero.hpp, chapters/04_zero/zero_stage.hpp

#include <initializer_list>

#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

class ZeroTraining : public ZeroTest {
 protected:
  using Settings = std::vector<ZeroSettings>;

  /// Three steps.
  ZeroCase draw_short(int ranks) {
    ZeroCase c = draw(ranks, ZeroStage::kOptimizer, DType::kF32);
    c.options.steps = 3;
    return c;
  }

  /// Sequences that fall unevenly on the ranks, in micro-batches of which some ranks have fewer.
  ZeroCase draw_accumulating(int ranks) {
    ZeroCase c = draw_short(ranks);
    c.micro_batch = random.between(1, 2);
    c.options.global_batch = 2 * c.micro_batch * static_cast<std::size_t>(ranks) + 1;
    return c;
  }

  Settings draw_settings_of(std::initializer_list<ZeroStage> stages) {
    Settings all;
    for (const ZeroStage stage : stages) all.push_back(draw_settings(stage));
    return all;
  }

  /// Every capacity of buckets, with and without overlap.
  static Settings all_buckets(ZeroStage stage) {
    Settings all;
    for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
      for (const std::size_t capacity : kCapacities) {
        all.push_back({.stage = stage, .bucket_capacity = capacity, .overlap = overlap});
      }
    }
    return all;
  }

  /// Every way to gather units.
  static Settings all_gathers() {
    Settings all;
    for (std::size_t prefetch = 0; prefetch <= 3; ++prefetch) {
      for (const Reshard reshard : {Reshard::kAfterForward, Reshard::kAfterBackward}) {
        for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
          all.push_back({.stage = ZeroStage::kParameters,
                         .cut = prefetch % 2 == 0 ? ShardCut::kFlat : ShardCut::kRows,
                         .overlap = overlap,
                         .prefetch = prefetch,
                         .reshard = reshard});
        }
      }
    }
    return all;
  }

  /// Sums in the order of the ranks, or by the platform's own collectives.
  RankOptions any_order() { return random.between(0, 1) == 0 ? in_rank_order() : RankOptions(); }

  /// Within the tolerance of f64. Collective.
  static void expect_equals_one_rank(const ZeroRun& run, const RankRun& one,
                                     const Communicator& dp) {
    expect_near_losses(run, one, 1e-10);
    expect_near_norms(run, one, 1e-10);
    expect_near_weights(run, one, 1e-10);
    expect_same_on_all(dp, losses_and_norms(run.result));
  }

  /// A run under each of the settings is, bit for bit, the same as one run in which ranks hold all.
  static void expect_same_with_all(const ZeroCase& drawn, const Settings& all,
                                   RankRun (*expected)(const Communicator&, const ZeroCase&)) {
    on_ranks(drawn, [&](Communicator& dp) {
      const RankRun wanted = expected(dp, drawn);
      for (const ZeroSettings& settings : all) {
        ZeroCase c = drawn;
        c.settings = settings;
        SCOPED_TRACE(c.str());
        expect_same_bits(run_zero(dp, c), wanted);
      }
    });
  }
};

TEST_F(ZeroTraining, Stage1IsPlainDataParallelismBitForBit) {
  expect_same_with_all(draw_accumulating(3), all_buckets(ZeroStage::kOptimizer), run_plain);
  for (const int ranks : {1, 2, 4, 5, 8}) {
    const ZeroCase c = ranks % 2 == 0 ? draw_accumulating(ranks) : draw_short(ranks);
    expect_same_with_all(c, draw_settings_of({ZeroStage::kOptimizer, ZeroStage::kOptimizer}),
                         run_plain);
  }
}

TEST_F(ZeroTraining, Stages2And3ArePlainDataParallelismBitForBitWithOneMicroBatch) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    ZeroCase c = draw_short(ranks);
    c.micro_batch = c.largest_share() + random.between(0, 1);
    expect_same_with_all(c, draw_settings_of({ZeroStage::kGradients, ZeroStage::kParameters}),
                         run_plain);
  }
}

TEST_F(ZeroTraining, Stage2AddsUpEachMicroBatchBitForBit) {
  expect_same_with_all(draw_accumulating(3), all_buckets(ZeroStage::kGradients),
                       run_summing_each_pass);
}

TEST_F(ZeroTraining, Stage3AddsUpEachMicroBatchBitForBit) {
  expect_same_with_all(draw_accumulating(3), all_gathers(), run_summing_each_pass);
}

TEST_F(ZeroTraining, OtherNumbersOfRanksAddUpEachMicroBatchBitForBit) {
  for (const int ranks : {1, 2, 4, 5, 8}) {
    expect_same_with_all(draw_accumulating(ranks),
                         draw_settings_of({ZeroStage::kGradients, ZeroStage::kParameters}),
                         run_summing_each_pass);
  }
}

TEST_F(ZeroTraining, EqualsOneRankInF64) {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    const ZeroCase drawn = draw(ranks, ZeroStage::kOptimizer, DType::kF64);
    const Settings all = draw_settings_of({kSharded[0], kSharded[1], kSharded[2]});
    on_ranks(
        drawn,
        [&](Communicator& dp) {
          const RankRun one = run_alone(dp, drawn.options);
          for (const ZeroSettings& settings : all) {
            ZeroCase c = drawn;
            c.settings = settings;
            SCOPED_TRACE(c.str());
            expect_equals_one_rank(run_zero(dp, c), one, dp);
          }
        },
        any_order());
  }
}

TEST_F(ZeroTraining, ARankHasTheShardOfItsTwinInAnotherNode) {
  for (const int ranks : {4, 6}) {
    for (const ZeroStage stage : kSharded) {
      ZeroCase c = draw_accumulating(ranks);
      c.settings = draw_settings(stage);
      c.node_size = static_cast<std::size_t>(ranks == 4 ? 2 : 3);
      const int size = c.shards();
      on_ranks(c, [&](Communicator& dp) {
        const ZeroRun run = run_zero(dp, c);
        const Communicator twins = dp.split([size](int rank) { return rank % size; }, "twins");
        for (const std::vector<double>& piece : run.own) expect_same_on_all(twins, piece);
        for (const std::vector<double>& weight : run.weights) expect_same_on_all(dp, weight);
        for (const std::vector<double>& weight : run.replica) expect_same_on_all(dp, weight);
      });
    }
  }
}

TEST_F(ZeroTraining, NodesOfOneRankArePlainDataParallelism) {
  for (const ZeroStage stage : kSharded) {
    ZeroCase c = draw(3, stage, DType::kF32);
    c.node_size = 1;
    c.micro_batch = c.largest_share();
    on_ranks(c, [&](Communicator& dp) { expect_same_bits(run_zero(dp, c), run_plain(dp, c)); });
  }
}

}  // namespace
}  // namespace ultra::zero
