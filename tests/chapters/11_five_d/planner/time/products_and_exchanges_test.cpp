// Products by their shapes, exchanges by the links that they cross.
//
// Covers: chapters/11_five_d/planner/time/product_time.hpp
// Covers: chapters/11_five_d/planner/time/exchange_time.hpp

#include <gtest/gtest.h>

#include "chapters/11_five_d/composition/step_traffic.hpp"
#include "chapters/11_five_d/planner/time/block_time.hpp"
#include "chapters/11_five_d/planner/time/exchange_time.hpp"
#include "chapters/11_five_d/planner/time/product_time.hpp"
#include "tests/chapters/11_five_d/composition/configuration.hpp"
#include "tests/support/random.hpp"

namespace ultra::planner {
namespace {

class ProductTime : public ultra::test::RandomTest {
 protected:
  const GpuType& gpu_ = find_cluster("dgx-a100")->gpu;
  [[nodiscard]] double rate(const ProductShape& shape) const {
    return shape.flop() / product_seconds(gpu_, shape, 2, gpu_.peak_flops);
  }
};

TEST_F(ProductTime, LargeOnesReachTheEfficiencyAndNoneMore) {
  const double most = gpu_.peak_flops * gpu_.efficiency.products;
  EXPECT_GT(rate({.m = 16384, .k = 16384, .n = 16384}), 0.97 * most);
  for (int round = 0; round < 100; ++round) {
    const ProductShape shape{.m = static_cast<double>(random.between(1, 20000)),
                             .k = static_cast<double>(random.between(1, 20000)),
                             .n = static_cast<double>(random.between(1, 20000))};
    EXPECT_LE(rate(shape), most);
  }
}

TEST_F(ProductTime, SmallOnesWaitForTheMemory) {
  // One row: every weight is read for two FLOP.
  const double seconds = product_seconds(gpu_, {.m = 1, .k = 8192, .n = 8192}, 2, gpu_.peak_flops);
  const double bytes = 2.0 * (8192.0 * 8192 + 2 * 8192);
  EXPECT_GE(seconds, bytes / (gpu_.memory_bandwidth * gpu_.efficiency.memory) * (1 - 1e-12));
}

TEST_F(ProductTime, MoreWorkIsNeverFaster) {
  for (int round = 0; round < 100; ++round) {
    const ProductShape shape{.m = static_cast<double>(random.between(1, 5000)),
                             .k = static_cast<double>(random.between(1, 5000)),
                             .n = static_cast<double>(random.between(1, 5000))};
    const double before = product_seconds(gpu_, shape, 2, gpu_.peak_flops);
    for (ProductShape larger :
         {ProductShape{shape.m * 2, shape.k, shape.n}, ProductShape{shape.m, shape.k * 2, shape.n},
          ProductShape{shape.m, shape.k, shape.n * 2}}) {
      EXPECT_GE(product_seconds(gpu_, larger, 2, gpu_.peak_flops), before * (1 - 1e-12));
    }
  }
}

TEST_F(ProductTime, MeasuredProductsDecideWhereThereAreAny) {
  GpuType measured = gpu_;
  measured.measured_products = {{.m = 64, .k = 64, .n = 64, .flops = 1e9},
                                {.m = 4096, .k = 4096, .n = 4096, .flops = 1e11}};
  const auto speed = [&](const ProductShape& shape) {
    return shape.flop() / product_seconds(measured, shape, 4, 1);
  };
  EXPECT_DOUBLE_EQ(speed({.m = 64, .k = 64, .n = 64}), 1e9);
  EXPECT_DOUBLE_EQ(speed({.m = 4096, .k = 4096, .n = 4096}), 1e11);
  // As near to the one as to the other: their mean.
  EXPECT_NEAR(speed({.m = 512, .k = 512, .n = 512}), 1.01e11 / 2, 1e3);
  EXPECT_NEAR(speed({.m = 4096, .k = 64, .n = 512}), 1.01e11 / 2, 1e3);
  // Near one of them, its speed: 64 times as near, with weights to the power of -6.
  EXPECT_NEAR(speed({.m = 65, .k = 64, .n = 64}), 1e9, 1e2);
  EXPECT_NEAR(speed({.m = 2048, .k = 1024, .n = 4096}), 1e11, 1e9);
}

Cluster cluster() {
  Cluster c = *find_cluster("dgx-h100");
  c.gpu.efficiency.network = 1;
  c.intra = {.latency = 0, .bandwidth = 400e9};
  c.inter = {.latency = 0, .bandwidth = 50e9};
  return c;
}

constexpr double kBytes = 8e9;
constexpr GroupPlacement kNode = {.ranks = 8, .per_node = 8, .nodes = 1};
constexpr GroupPlacement kAcross = {.ranks = 8, .per_node = 1, .nodes = 8};
constexpr GroupPlacement kBoth = {.ranks = 64, .per_node = 8, .nodes = 8};

TEST(ExchangeTime, RingsInsideANode) {
  EXPECT_NEAR(gather_seconds(cluster(), kNode, kBytes), kBytes * 7 / 8 / 400e9, 1e-9);
  EXPECT_NEAR(all_reduce_seconds(cluster(), kNode, kBytes), 2 * kBytes * 7 / 8 / 400e9, 1e-9);
}

TEST(ExchangeTime, OneRankPerNodeHasItsOwnNic) {
  EXPECT_NEAR(gather_seconds(cluster(), kAcross, kBytes), kBytes * 7 / 8 / 50e9, 1e-9);
}

TEST(ExchangeTime, AWholeNodeHasAllItsNics) {
  EXPECT_DOUBLE_EQ(ring_bandwidth(cluster(), kBoth), 400e9);
  Cluster few = cluster();
  few.nics_per_node = 1;
  EXPECT_DOUBLE_EQ(ring_bandwidth(few, kBoth), 50e9);
  EXPECT_DOUBLE_EQ(ring_bandwidth(few, kAcross), 50e9 / 8);  // seven others use it too
}

TEST(ExchangeTime, OneRankExchangesNothing) {
  const GroupPlacement one;
  EXPECT_EQ(gather_seconds(cluster(), one, kBytes), 0);
  EXPECT_EQ(all_reduce_seconds(cluster(), one, kBytes), 0);
  EXPECT_EQ(all_to_all_seconds(cluster(), one, kBytes, kBytes), 0);
  EXPECT_EQ(message_seconds(cluster(), one, kBytes), 0);
}

TEST(ExchangeTime, TreesForSmallMessagesOfMany) {
  Cluster slow = cluster();
  slow.inter.latency = 1e-3;
  slow.intra.latency = 1e-6;
  const GroupPlacement many{.ranks = 256, .per_node = 1, .nodes = 256};
  EXPECT_NEAR(all_reduce_seconds(slow, many, 8), 2 * 8 * 1e-3, 1e-5);  // log2(256) levels, twice
}

TEST(ExchangeTime, TokensCrossNodesThroughTheNics) {
  // Of 64 ranks, 56 are elsewhere.
  EXPECT_NEAR(all_to_all_seconds(cluster(), kBoth, kBytes, kBytes), kBytes * 56 / 64 / 50e9, 1e-9);
  EXPECT_NEAR(all_to_all_seconds(cluster(), kNode, kBytes, kBytes), kBytes * 7 / 8 / 400e9, 1e-9);
}

TEST(ExchangeTime, TpAcrossNodesIsNotNvlink) {
  const GroupPlacement two{.ranks = 16, .per_node = 8, .nodes = 2};
  Cluster c = cluster();
  c.gpu.efficiency.network = 0.5;
  EXPECT_GT(gather_seconds(c, two, kBytes), 1.9 * gather_seconds(c, kNode, kBytes));
}

class TensorExchange : public ultra::test::RandomTest {
 protected:
  static double real(std::size_t value) { return static_cast<double>(value); }
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
                       {"--micro-batch", std::to_string(micro_batch)}};
    const double sent = real(five_d::step_traffic(five_d::test::setup_of(training)).tensor);

    // A byte a second, and no latency: seconds of a rank are the bytes that it sends.
    Question question{
        .work = {}, .cluster = *find_cluster("dgx-a100"), .software = find_software("workbook")};
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
