// Covers: common/train/micro_batch.hpp
// Covers: common/train/rank_groups.hpp
#include "common/train/plan.hpp"

#include "common/comm/run_ranks.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/plain_training.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::train {
namespace {

/// The first of two ranks takes the larger half; all make as many passes as that one needs.
PlanRules unequal_rules() {
  return {.share =
              [](std::size_t global_batch, const Communicator& replicas) {
                const std::size_t middle = (global_batch + 1) / 2;
                return replicas.rank() == 0 ? Range{0, middle} : Range{middle, global_batch};
              },
          .cut =
              [](const LocalBatch& share, std::size_t micro_batch) {
                return std::vector<MicroBatch>(
                    (share.largest + micro_batch - 1) / micro_batch,
                    {.sequences = {0, 1}, .normalizer = share.global_tokens});
              },
          .schedule = ultra::test::one_after_the_other};
}

TEST(Plans, SayWhatARankIsToTheOthers) {
  TrainOptions options = ultra::test::short_run();
  options.global_batch = 5;
  options.micro_batch = 2;
  run_ranks(4, [&](Communicator& world) {
    const Plan plan = make_plan(options, world,
                                MeshShape({replicas(2), {.name = "tp", .size = 2, .nearness = 40}}),
                                unequal_rules());
    EXPECT_EQ(plan.ranks().size(), 4);
    EXPECT_EQ(plan.counts_loss(), world.rank() % 2 == 0) << "tp stands innermost";
    EXPECT_EQ(plan.groups.at(nn::kDataGroup).size(), 2);
    EXPECT_EQ(plan.groups.at(nn::kDataGroup).rank(), world.rank() / 2);
    EXPECT_EQ(plan.share.sequences, world.rank() < 2 ? (Range{0, 3}) : (Range{3, 5}));
    EXPECT_EQ(plan.share.seq_len, 16U);
    EXPECT_EQ(plan.share.global_tokens, 5 * 16.0) << "of all ranks, not of this one's share";
    ASSERT_EQ(plan.chunks.size(), 1U) << "the whole model";
    EXPECT_EQ(plan.chunks[0].layers, (Range{0, 2}));
    EXPECT_TRUE(plan.chunks[0].has_embedding && plan.chunks[0].has_head);
  });
}

TEST(Plans, HaveAsManyMicroBatchesOnEveryRank) {
  TrainOptions options = ultra::test::short_run();
  options.global_batch = 5;
  for (const std::size_t micro_batch : {1U, 2U, 3U}) {
    options.micro_batch = micro_batch;
    run_ranks(2, [&](Communicator& world) {
      const Plan plan = make_plan(options, world, MeshShape({replicas(2)}), unequal_rules());
      const std::size_t passes = (3 + micro_batch - 1) / micro_batch;  // 5 over 2 ranks: at most 3
      EXPECT_EQ(plan.share.largest, 3U);
      EXPECT_EQ(plan.micro_batches.size(), passes);
      EXPECT_EQ(plan.schedule, ultra::test::one_after_the_other(passes));
      EXPECT_NO_THROW(expect_complete(plan.schedule, passes, plan.chunks.size()));
    });
  }
}

}  // namespace
}  // namespace ultra::train
