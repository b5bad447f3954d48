#include "chapters/04_zero/estimate/sharded_bytes.hpp"

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();

/// h 4, kv 2, f 3, V 5, L 1: the embedding has 5 h = 20 elements, the block 2 h^2 + 2 h kv + 3 h f
/// + 2 h = 92, the head h + 5 h = 24: 136 together.
///
/// On 3 ranks the units are padded to 21, 93 and 24, together 138, with shards of 7, 31 and 8.
ShardedRun run_of(ZeroStage stage, std::size_t micro_batches = 1) {
  return {.model = {.vocab_size = 5,
                    .hidden_size = 4,
                    .num_layers = 1,
                    .num_heads = 2,
                    .num_kv_heads = 1,
                    .ffn_hidden_size = 3,
                    .max_seq_len = 2},
          .dtype = DType::kF32,
          .settings = {.stage = stage,
                       .bucket_capacity = kEverything,
                       .overlap = Overlap::kOff,
                       .prefetch = 0,
                       .reshard = Reshard::kAfterForward},
          .shards = 3,
          .micro_batches = micro_batches};
}

/// Elements instead of bytes: of f32.
ShardedBytes elements(const ShardedRun& run, int rank = 0) {
  const collectives::BookAlgorithms algorithms(collectives::BookOptions{
      .names = {{OpKind::kAllReduce, "pairwise"}, {OpKind::kReduceScatter, "pairwise"}},
      .tuning = {}});
  const ShardedBytes bytes = predict_bytes(run, rank, algorithms);
  return {.parameters = bytes.parameters / 4,
          .gradients = bytes.gradients / 4,
          .optimizer = bytes.optimizer / 4,
          .buffers = bytes.buffers / 4,
          .scratch = bytes.scratch / 4};
}

TEST(ShardedBytes, Stage1ShardsTheOptimizerOnly) {
  const ShardedBytes first = elements(run_of(ZeroStage::kOptimizer), 0);
  EXPECT_EQ(first.parameters, 138U);
  EXPECT_EQ(first.gradients, 138U);
  EXPECT_EQ(first.optimizer, 2 * 46U);
  EXPECT_EQ(first.buffers, 0U);
  EXPECT_EQ(first.scratch, 46U) << "one chunk of the only bucket";
  EXPECT_EQ(elements(run_of(ZeroStage::kOptimizer), 2).optimizer, 2 * 44U)
      << "the last rank has the padding, which has no moments";
}

TEST(ShardedBytes, Stage2ShardsTheGradientsToo) {
  const ShardedBytes bytes = elements(run_of(ZeroStage::kGradients));
  EXPECT_EQ(bytes.parameters, 138U);
  EXPECT_EQ(bytes.gradients, 46U);
  EXPECT_EQ(bytes.optimizer, 2 * 46U);
  EXPECT_EQ(bytes.buffers, 138U);
}

TEST(ShardedBytes, Stage3ShardsEverything) {
  const ShardedBytes bytes = elements(run_of(ZeroStage::kParameters), 2);
  EXPECT_EQ(bytes.parameters, 7U + 31U + 8U);
  EXPECT_EQ(bytes.gradients, 7U + 31U + 8U);
  EXPECT_EQ(bytes.optimizer, 2 * (6U + 30U + 8U));
  EXPECT_EQ(bytes.scratch, 31U) << "one chunk of the block";
}

TEST(ShardedBytes, F64TakesTwiceAsMuch) {
  for (const ZeroStage stage :
       {ZeroStage::kOptimizer, ZeroStage::kGradients, ZeroStage::kParameters}) {
    ShardedRun run = run_of(stage);
    run.settings.bucket_capacity = 30;
    const ShardedBytes f32 = elements(run);
    run.dtype = DType::kF64;
    const ShardedBytes f64 = elements(run);
    EXPECT_EQ(f64.parameters, 2 * f32.parameters);
    EXPECT_EQ(f64.gradients, 2 * f32.gradients);
    EXPECT_EQ(f64.optimizer, 2 * f32.optimizer);
    EXPECT_EQ(f64.buffers, 2 * f32.buffers);
    EXPECT_EQ(f64.scratch, 2 * f32.scratch);
  }
}

/// A bucket fills up while the one before it is on its way.
TEST(ShardedBytes, OverlapKeepsTwoBuckets) {
  ShardedRun run = run_of(ZeroStage::kGradients);
  run.settings.bucket_capacity = 0;  // each parameter by itself, padded to 3: 4 -> 6, 16 -> 18
  EXPECT_EQ(elements(run).buffers, 21U) << "the largest: an embedding of 20";
  run.settings.overlap = Overlap::kOn;
  EXPECT_EQ(elements(run).buffers, 21U + 6U) << "and the norm beside it";
}

TEST(ShardedBytes, WithTheNextMicroBatchTheLastBucketsAreStillOnTheirWay) {
  ShardedRun run = run_of(ZeroStage::kGradients, 2);
  run.settings.overlap = Overlap::kOn;
  run.settings.bucket_capacity = 0;
  EXPECT_EQ(elements(run).buffers, 21U + 21U) << "the embedding and the next pass's head";
  run.settings.bucket_capacity = kEverything;
  EXPECT_EQ(elements(run).buffers, 2 * 138U);
  run.settings.overlap = Overlap::kOff;
  EXPECT_EQ(elements(run).buffers, 138U);
}

TEST(ShardedBytes, Stage3BuffersUnitsAndTheirGradients) {
  ShardedRun run = run_of(ZeroStage::kParameters);
  EXPECT_EQ(elements(run).buffers, 93U + 93U) << "the block and its gradient";
  run.settings.overlap = Overlap::kOn;
  EXPECT_EQ(elements(run).buffers, 93U + 93U + 24U) << "and the head's gradient under way";
  run.settings.prefetch = 1;
  EXPECT_EQ(elements(run).buffers, 93U + 93U + 24U + 21U) << "and the embedding, gathered ahead";
}

TEST(ShardedBytes, UnitsThatAreKeptAreAllThereAtOnce) {
  ShardedRun run = run_of(ZeroStage::kParameters);
  run.settings.reshard = Reshard::kAfterBackward;
  // Backward pass of the block: the head has gone.
  EXPECT_EQ(elements(run).buffers, 93U + 93U + 21U);
}

TEST(ShardedBytes, BlocksThatRunForwardAgainTogetherAreThereTogether) {
  ShardedRun run = run_of(ZeroStage::kParameters);
  run.model.num_layers = 4;
  EXPECT_EQ(elements(run).buffers, 93U + 93U);
  run.settings.recompute_every = 3;  // blocks 0, 1, 2; then block 3 alone
  EXPECT_EQ(elements(run).buffers, 3 * 93U + 93U);
  run.settings.recompute_every = 100;
  EXPECT_EQ(elements(run).buffers, 4 * 93U + 93U);
}

/// While one bucket's shard is added up over the copies, the next is reduced to shards.
TEST(ShardedBytes, InStage1AddingUpCopiesNeedsMemoryAtTheSameTime) {
  ShardedRun run = run_of(ZeroStage::kOptimizer);
  run.replicas = 2;
  EXPECT_EQ(elements(run).scratch, 46U + 23U) << "half of a shard of 46";
  for (const ZeroStage stage : {ZeroStage::kGradients, ZeroStage::kParameters}) {
    ShardedRun one = run_of(stage);
    ShardedRun two = one;
    two.replicas = 2;
    EXPECT_EQ(elements(two).scratch, elements(one).scratch) << "nothing else is under way then";
  }
}

/// Nodes of 2 on 4 ranks, of the same model: padded to 20, 92 and 24, shards of 5, 23 and 6.
ShardedRun on_nodes(const ZeroPlusPlus& how) {
  ShardedRun run = run_of(ZeroStage::kParameters);
  run.shards = 4;
  run.settings.plus_plus = how;
  return run;
}

TEST(ShardedBytes, SecondaryShardsAreParametersToo) {
  EXPECT_EQ(elements(on_nodes({})).parameters, 34U);
  ZeroPlusPlus how{.secondary = SecondaryShards::kInNode, .node_size = 2};
  EXPECT_EQ(elements(on_nodes(how)).parameters, 34U + 136U / 2);
  EXPECT_EQ(elements(on_nodes(how)).buffers, elements(on_nodes({})).buffers);
  how.weights = BlockFormat{};
  // Messages of 5, 23 and 6 bytes, filled up to 8, 24 and 8, with a scale of one word each.
  EXPECT_EQ(elements(on_nodes(how)).parameters, 34U + 2 * (3U + 7U + 3U));
}

TEST(ShardedBytes, QuantisedWeightsStandBesideTheUnitForAMoment) {
  ZeroPlusPlus how{.weights = BlockFormat{}};
  EXPECT_EQ(elements(on_nodes(how)).buffers, 92U + 92U) << "the block and its gradient, as ever";
  ShardedRun run = on_nodes(how);
  run.settings.reshard = Reshard::kAfterBackward;
  run.settings.prefetch = 1;
  // Forward: embedding and block are there, and the head stands beside its messages of 4 ranks.
  EXPECT_GE(elements(run).buffers, 20U + 92U + 24U + 4 * 3U);
}

TEST(ShardedBytes, QuantisedGradientsStandBesideTheirMessages) {
  // 4 messages of 7 words each way, beside the block and its gradient.
  ZeroPlusPlus how{.gradients = BlockFormat{}};
  EXPECT_EQ(elements(on_nodes(how)).buffers, 92U + 92U + 2 * 4 * 7U);
  ShardedRun run = on_nodes(how);
  run.settings.overlap = Overlap::kOn;
  EXPECT_EQ(elements(run).buffers, 92U + 92U + 2 * 4 * 7U + 2 * 4 * 3U)
      << "and the head's messages";
  EXPECT_EQ(elements(run).scratch, 0U);
}

TEST(ShardedBytes, QuantisedBytesSentHaveTheirScales) {
  const ShardedRun exact = on_nodes({});
  EXPECT_EQ(predict_sent(exact, 0).total, 4 * predict_sent_elements(exact));
  ShardedRun run = on_nodes({.weights = BlockFormat{}, .gradients = BlockFormat{}});
  // Three trips of embedding and block, two of the head, to 3 others.
  constexpr std::size_t kMicroBatch = 3 * 4 * (3 * (3U + 7U) + 2 * 3U);
  EXPECT_EQ(predict_sent(run, 0).total, kMicroBatch);
  run.micro_batches = 2;
  EXPECT_EQ(predict_sent(run, 0).total, 2 * kMicroBatch);
  for (const ZeroStage stage : {ZeroStage::kOptimizer, ZeroStage::kGradients}) {
    EXPECT_EQ(predict_sent(run_of(stage), 0).total, 4 * predict_sent_elements(run_of(stage)));
  }
}

TEST(ShardedBytes, OneRankHasEverythingAndNoPadding) {
  for (const ZeroStage stage :
       {ZeroStage::kOptimizer, ZeroStage::kGradients, ZeroStage::kParameters}) {
    ShardedRun run = run_of(stage);
    run.shards = 1;
    const ShardedBytes bytes = elements(run);
    EXPECT_EQ(bytes.parameters, 136U);
    EXPECT_EQ(bytes.gradients, 136U);
    EXPECT_EQ(bytes.optimizer, 2 * 136U);
    EXPECT_EQ(bytes.scratch, 0U);
    EXPECT_EQ(predict_sent_elements(run), 0U);
  }
}

TEST(ShardedBytes, SentElementsCountTheTripsOfAllGroups) {
  constexpr std::size_t kTrip = 138 - 46;
  constexpr std::size_t kHead = 24 - 8;  // stays at the turn
  for (const std::size_t m : {1U, 4U}) {
    EXPECT_EQ(predict_sent_elements(run_of(ZeroStage::kOptimizer, m)), 2 * kTrip);
    EXPECT_EQ(predict_sent_elements(run_of(ZeroStage::kGradients, m)), (m + 1) * kTrip);
    EXPECT_EQ(predict_sent_elements(run_of(ZeroStage::kParameters, m)), m * (3 * kTrip - kHead));
    ShardedRun kept = run_of(ZeroStage::kParameters, m);
    kept.settings.reshard = Reshard::kAfterBackward;
    EXPECT_EQ(predict_sent_elements(kept), 2 * m * kTrip);
  }
}

}  // namespace
}  // namespace ultra::zero
