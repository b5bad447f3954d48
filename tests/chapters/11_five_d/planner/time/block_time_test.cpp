// What a block takes, beside the one that was measured piece by piece.
//
// Covers: chapters/11_five_d/planner/time/block_time.hpp

#include "chapters/11_five_d/planner/time/block_time.hpp"

#include <gtest/gtest.h>

#include "chapters/11_five_d/five_d.hpp"
#include "common/replay/prices.hpp"
#include "common/train/elsewhere/record_step.hpp"
#include "tests/chapters/11_five_d/composition/configuration.hpp"
#include "tests/support/random.hpp"

namespace ultra::planner {
namespace {

using memory::Recompute;

Question block_question() {
  return {.work = {.model = *find_model("megatron-22b"), .seq_len = 2048, .global_batch = 4},
          .cluster = *replay::find_cluster("dgx-a100"),
          .software = find_software("megatron-2022")};
}

/// Milliseconds of a 22B block, forward and backward with what is computed again.
std::pair<double, double> milliseconds(bool sp, Recompute mode) {
  const BlockSeconds block =
      block_seconds(block_question(),
                    {.tp = 8, .micro_batch = 4, .recompute = mode, .sequence_parallel = sp}, false);
  return {1e3 * block.forward.total(), 1e3 * (block.recompute.total() + block.backward.total())};
}

void expect_within(double value, double published, double part) {
  EXPECT_NEAR(value / published, 1, part) << value << " beside " << published;
}

TEST(BlockTime, KorthikantisTableFour) {
  // Forward and backward in ms; nothing was fitted on them.
  const auto [base_f, base_b] = milliseconds(false, Recompute::kNone);
  expect_within(base_f, 7.7, 0.15);
  expect_within(base_b, 11.9, 0.15);
  const auto [sp_f, sp_b] = milliseconds(true, Recompute::kNone);
  expect_within(sp_f, 7.2, 0.15);
  expect_within(sp_b, 11.8, 0.15);
  const auto [full_f, full_b] = milliseconds(false, Recompute::kFull);
  expect_within(full_f + full_b, 27.2, 0.15);
  const auto [both_f, both_b] = milliseconds(true, Recompute::kSelective);
  expect_within(both_f + both_b, 20.3, 0.15);
  // The order that the paper is about.
  EXPECT_LT(both_f + both_b, full_f + full_b);
  EXPECT_LT(sp_f, base_f);
}

/// The works that the program's own Llama block puts on its tape, one kernel each.
TEST(BlockTime, OfAProgramThatFusesNothingIsThePriceOfItsWorks) {
  Question q = block_question();
  q.work.model = *find_model("llama-8b");
  q.software = find_software("workbook");
  const BlockSeconds block = block_seconds(q, {}, false);
  using gpu::TapedWork;
  const auto products = [&](std::size_t count, std::size_t k, std::size_t n) {
    const TapedWork work{
        .kind = gpu::WorkKind::kProduct, .m = 2048, .k = k, .n = n, .element_bytes = 2};
    return static_cast<double>(count) * replay::work_seconds(q.cluster, work);
  };
  EXPECT_DOUBLE_EQ(block.forward.products, products(2, 4096, 4096) + products(2, 4096, 1024) +
                                               products(2, 4096, 14336) + products(1, 14336, 4096));
  // Half of all pairs, as a causal mask leaves them.
  const TapedWork attention{
      .kind = gpu::WorkKind::kAttention, .element_bytes = 2, .flop = 2.0 * 2048 * 2048 * 4096};
  EXPECT_DOUBLE_EQ(block.forward.attention, replay::work_seconds(q.cluster, attention));
}

// Exchanges of tp by the bytes that a recorded training sends.

class TensorExchange : public ultra::test::RandomTest {
 protected:
  static double real(std::size_t value) { return static_cast<double>(value); }
  /// What all ranks of tp send for products and the loss in a recorded step.
  static double sent_by_all(const train::Setup& setup, std::size_t tp) {
    double sent = 0;
    for (std::size_t rank = 0; rank < tp; ++rank) {
      const train::RecordedRank recorded = train::record_step(setup, static_cast<int>(rank));
      const gpu::Tape& tape = *recorded.tape;
      for (const gpu::TapedExchange& exchange : tape.exchanges) {
        const bool is_of_tp = tape.groups[exchange.group].name == "tp";
        const bool is_of_update = tape.names[exchange.label] == "gradients of copies";
        if (is_of_tp && !is_of_update) sent += real(exchange.sent_bytes);
      }
    }
    return sent;
  }
  static double exchanged(const BlockSeconds& part) {
    return part.forward.tensor_exchange + part.backward.tensor_exchange;
  }
};

TEST_F(TensorExchange, SendsTheBytesOfATraining) {
  for (const bool shares_tokens : {false, true}) {
    const std::size_t tp = random.pick({2U, 4U});
    const std::size_t layers = random.between(1, 4);
    const std::size_t seq = 16 * random.between(1, 3);
    const std::size_t micro_batch = random.between(1, 2);
    const std::size_t micro_batches = random.between(1, 3);
    five_d::test::Configuration training;
    training.model = {{"--layers", std::to_string(layers)},
                      {"--hidden", "32"},
                      {"--heads", "4"},
                      {"--kv-heads", "4"},
                      {"--ffn", "48"},
                      {"--seq", std::to_string(seq)},
                      {"--global-batch", std::to_string(micro_batches * micro_batch)},
                      {"--dtype", "f32"}};
    training.layout = {{"--tp", std::to_string(tp)},
                       {"--sp", shares_tokens ? "on" : "off"},
                       {"--micro-batch", std::to_string(micro_batch)},
                       {"--on", "dgx-a100"}};
    const double sent = sent_by_all(train::parse_setup(five_d::techniques(), training.words()), tp);

    // A byte a second, and no latency: seconds of a rank are the bytes that it sends.
    Question question{.work = {},
                      .cluster = *replay::find_cluster("dgx-a100"),
                      .software = find_software("workbook")};
    question.cluster.intra = {.latency = 0, .bandwidth = 1};
    memory::TransformerShape shape;
    shape.hidden_size = 32;
    shape.num_heads = 4;
    shape.num_kv_heads = 4;
    shape.ffn_hidden_size = 48;
    shape.num_layers = layers;
    question.work.model = dense_model(shape);
    question.work.seq_len = seq;
    question.work.global_batch = micro_batches * micro_batch;
    const Layout layout{.tp = tp,
                        .micro_batch = micro_batch,
                        .sequence_parallel = shares_tokens,
                        .precision = memory::NumberFormats::kFp32};
    const double block = exchanged(block_seconds(question, layout, false));
    const double ends =
        exchanged(head_seconds(question, layout)) + exchanged(embedding_seconds(question, layout));
    const double activations = real(tp * micro_batches) * (real(layers) * block + ends);
    // The loss: the largest logit of each token, the sum of exponentials and the target's logit.
    const double of_number = 2 * real(tp - 1) * 4;
    const double loss = sent - activations;
    const double tokens = real(micro_batches * micro_batch * seq);
    EXPECT_NEAR(loss / (of_number * tokens), 3, 1e-6);
  }
}

}  // namespace
}  // namespace ultra::planner
