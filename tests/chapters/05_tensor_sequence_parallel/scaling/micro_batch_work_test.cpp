#include "chapters/05_tensor_sequence_parallel/scaling/micro_batch_work.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "tests/support/random.hpp"

namespace ultra::tensor_parallel {
namespace {

using memory::BatchShape;
using memory::TransformerShape;

TransformerShape small_model() {
  return {.name = "small",
          .num_layers = 3,
          .hidden_size = 8,
          .num_heads = 4,
          .num_kv_heads = 2,
          .ffn_hidden_size = 16,
          .vocab_size = 9};
}

constexpr BatchShape kBatch{.size = 2, .seq_len = 4};

TensorParallelLayout layout(int tp, SequenceParallel sequence_parallel) {
  return {.tp = tp, .sequence_parallel = sequence_parallel};
}

/// Exchanges of one operation and size, all kinds together.
std::size_t times(const MicroBatchWork& work, OpKind op, std::size_t count) {
  std::size_t sum = 0;
  for (const RepeatedExchange& repeated : work.exchanges) {
    if (repeated.exchange.op == op && repeated.exchange.count == count) sum += repeated.times;
  }
  return sum;
}

/// The only kind whose name starts like this.
RepeatedExchange kind(const MicroBatchWork& work, std::string_view what) {
  std::vector<RepeatedExchange> found;
  for (const RepeatedExchange& repeated : work.exchanges) {
    if (repeated.what.starts_with(what)) found.push_back(repeated);
  }
  EXPECT_EQ(found.size(), 1U) << what;
  return found.at(0);
}

/// Two ranks, heads of 2: query 4 wide, key and value 2 each, feed-forward 8, vocabulary 5 with one
/// row of padding. A block: 8 x 8 + 4 x 8 + 3 x 8 x 8 = 288 weights; the head 40. 8 tokens.
TEST(MicroBatchWork, OfASmallModelIsAsWorkedOutByHand) {
  const auto on = micro_batch_work(small_model(), kBatch, 2, layout(2, SequenceParallel::kOn));
  const double matrices = 6.0 * 8 * (3 * 288 + 40);
  const double attention = 3.0 * 3 * 2 * (2 * 2 * 4 * 4 * 4 / 2);  // causal, 2 of 4 heads
  EXPECT_EQ(on.product_flop, matrices + attention);
  // Per block 2 norms (2 + 3) and 2 sums (3 + 3), and the last norm; 4 of 8 tokens; bf16.
  EXPECT_EQ(on.elementwise_bytes, (3 * 22 + 5) * 4 * 8 * 2);
  const auto off = micro_batch_work(small_model(), kBatch, 2, layout(2, SequenceParallel::kOff));
  EXPECT_EQ(off.product_flop, on.product_flop);
  EXPECT_EQ(off.elementwise_bytes, 2 * on.elementwise_bytes) << "all tokens";
}

TEST(MicroBatchWork, ExchangesByAllReduceWithoutSequenceParallelism) {
  const auto work = micro_batch_work(small_model(), kBatch, 2, layout(2, SequenceParallel::kOff));
  EXPECT_EQ(times(work, OpKind::kAllReduce, 64), 3U * 4 + 1 + 1);
  EXPECT_EQ(times(work, OpKind::kAllReduce, 8), 1U) << "the loss's maxima";
  EXPECT_EQ(times(work, OpKind::kAllReduce, 16), 1U) << "its sums";
  EXPECT_EQ(times(work, OpKind::kAllGather, 64), 0U);
  EXPECT_EQ(times(work, OpKind::kReduceScatter, 64), 0U);
}

TEST(MicroBatchWork, GathersAndScattersWithIt) {
  const auto work = micro_batch_work(small_model(), kBatch, 2, layout(2, SequenceParallel::kOn));
  EXPECT_EQ(times(work, OpKind::kAllGather, 64), 3U * 6 + 1 + 2) << "blocks, embedding, head";
  EXPECT_EQ(times(work, OpKind::kReduceScatter, 64), 3U * 4 + 1 + 1);
  EXPECT_EQ(times(work, OpKind::kAllReduce, 64), 0U);
  EXPECT_EQ(times(work, OpKind::kAllReduce, 8), 1U);
  EXPECT_EQ(times(work, OpKind::kAllReduce, 16), 1U);
}

TEST(MicroBatchWork, TravelsInTheActivationsTypeButForTheLoss) {
  for (const SequenceParallel sequence_parallel : {SequenceParallel::kOff, SequenceParallel::kOn}) {
    const auto work = micro_batch_work(small_model(), kBatch, 2, layout(2, sequence_parallel));
    for (const RepeatedExchange& repeated : work.exchanges) {
      const bool loss = repeated.what.starts_with("loss");
      EXPECT_EQ(repeated.exchange.element_bytes, loss ? 4U : 2U) << repeated.what;
    }
  }
}

/// Beside an input gradient runs its own weight gradient: 2 FLOP per token and weight.
TEST(MicroBatchWork, NamesTheProductsThatNeedNothingFromAnExchange) {
  for (const SequenceParallel sequence_parallel : {SequenceParallel::kOff, SequenceParallel::kOn}) {
    const auto work = micro_batch_work(small_model(), kBatch, 2, layout(2, sequence_parallel));
    EXPECT_EQ(kind(work, "blocks backward: attention's input gradients").concurrent_flop,
              2.0 * 8 * (8 * (4 + 2 + 2)));
    EXPECT_EQ(kind(work, "blocks backward: feed-forward input gradients").concurrent_flop,
              2.0 * 8 * (2 * 8 * 8));
    EXPECT_EQ(kind(work, "head backward: input gradient").concurrent_flop, 2.0 * 8 * 8 * 5);
    EXPECT_EQ(kind(work, "blocks forward: outputs of rows").concurrent_flop, 0.0);
  }
}

TEST(MicroBatchWork, OneRankExchangesNothing) {
  for (const SequenceParallel sequence_parallel : {SequenceParallel::kOff, SequenceParallel::kOn}) {
    const auto work = micro_batch_work(small_model(), kBatch, 2, layout(1, sequence_parallel));
    EXPECT_TRUE(work.exchanges.empty());
    EXPECT_EQ(work.elementwise_bytes, (3 * 22 + 5) * 8 * 8 * 2);
  }
}

/// Six FLOP per token and weight that is multiplied, which norms, positions, biases and one of two
/// token tables are not; and 6 s h per token and block for the causal mask's half of attention.
TEST(MicroBatchWork, OfOneRankIsSixFlopPerWeightAndToken) {
  for (const TransformerShape& model : memory::model_presets()) {
    const BatchShape batch{.size = 3, .seq_len = 1024};
    const std::size_t h = model.hidden_size;
    const std::size_t layers = model.num_layers;
    const std::size_t tables = model.embeddings == memory::Embeddings::kTied ? 0 : 1;
    const bool gpt = model.kind == memory::BlockKind::kGpt;
    const std::size_t vectors =
        gpt ? layers * (9 * h + model.ffn_hidden_size) + 2 * h : (2 * layers + 1) * h;
    const std::size_t weights = memory::parameter_count(model) - vectors -
                                tables * model.vocab_size * h - model.num_positions * h;
    const double expected = 6.0 * 3 * 1024 * static_cast<double>(weights) +
                            6.0 * 3 * 1024 * 1024 * static_cast<double>(h * layers);
    const auto work = micro_batch_work(model, batch, 2, layout(1, SequenceParallel::kOff));
    EXPECT_NEAR(work.product_flop, expected, 1e-12 * expected) << model.name;
  }
}

class MicroBatchWorkOfRandomModels : public ultra::test::RandomTest {};

TEST_F(MicroBatchWorkOfRandomModels, IsSharedByTheRanks) {
  for (int i = 0; i < 50 && !HasFailure(); ++i) {
    const int tp = static_cast<int>(random.between(2, 8));
    const auto ranks = static_cast<std::size_t>(tp);
    TransformerShape model = small_model();
    model.num_layers = random.between(1, 5);
    model.num_kv_heads = ranks * random.between(1, 2);
    model.num_heads = model.num_kv_heads * random.between(1, 3);
    model.hidden_size = model.num_heads * 2 * random.between(1, 4);
    model.ffn_hidden_size = ranks * random.between(1, 9);
    model.vocab_size = ranks * random.between(1, 9);
    const BatchShape batch{.size = random.between(1, 4), .seq_len = ranks * random.between(1, 4)};
    const auto one = micro_batch_work(model, batch, 2, layout(1, SequenceParallel::kOn));
    const auto part = micro_batch_work(model, batch, 2, layout(tp, SequenceParallel::kOn));
    EXPECT_EQ(part.product_flop * tp, one.product_flop);
    EXPECT_EQ(part.elementwise_bytes * tp, one.elementwise_bytes);

    // More ranks than key/value heads: each rank has a whole one, and computes it again.
    model.num_kv_heads = 1;
    const auto copied = micro_batch_work(model, batch, 2, layout(tp, SequenceParallel::kOn));
    const auto once = micro_batch_work(model, batch, 2, layout(1, SequenceParallel::kOn));
    const auto tokens = static_cast<double>(batch.tokens());
    const auto key_and_value =
        static_cast<double>(2 * model.hidden_size * model.head_dim() * model.num_layers);
    EXPECT_EQ(copied.product_flop * tp,
              once.product_flop + (tp - 1) * 6.0 * tokens * key_and_value);
  }
}

}  // namespace
}  // namespace ultra::tensor_parallel
