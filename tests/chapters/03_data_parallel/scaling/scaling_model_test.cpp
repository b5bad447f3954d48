#include "chapters/03_data_parallel/scaling/scaling_model.hpp"

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/02_collectives/simulator/closed_form.hpp"
#include "chapters/03_data_parallel/overlap_condition.hpp"
#include "common/nn/model.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using collectives::Topology;
using memory::Embeddings;

constexpr double kTwoTo20 = 1 << 20;
constexpr double kTwoTo30 = 1 << 30;

/// A ring of single GPUs with a link of its own between any two.
Topology uniform(double latency, double bandwidth) {
  return {.nodes = 1,
          .gpus_per_node = 8,
          .intra = {.latency = latency, .bandwidth = bandwidth},
          .inter = {.latency = latency, .bandwidth = bandwidth},
          .nics_per_node = 8,
          .torus = {}};
}

/// 16 parameters of 2^20 elements, each a bucket; every number is a power of two, so that all sums of
/// times are exact.
ScalingRequest exact_request(std::vector<int> dp, double bandwidth) {
  return {.model = {.name = "equal", .parameters = std::vector<std::size_t>(16, 1 << 20)},
          .machine = uniform(1.0 / kTwoTo20, bandwidth),
          .algorithm = "ring",
          .dp = std::move(dp),
          .seq_len = 1024,
          .batch_rule = BatchRule::kPerRank,
          .batch = 4,
          .element_bytes = 2,
          .peak_flops = 1024 * kTwoTo30,
          .mfu = 1.0,
          .bucket_bytes = 2 * kTwoTo20};
}

ScalingRequest request_for(const char* preset, std::vector<int> dp) {
  return {.model = sizes_of(memory::find_preset(preset)),
          .machine = collectives::parse_topology("h100"),
          .dp = std::move(dp)};
}

ScalingPoint only_point(const ScalingRequest& request) {
  const ScalingReport report = predict_scaling(request);
  EXPECT_EQ(report.points.size(), 1u);
  return report.points.at(0);
}

/// What exercise 03.6 says of the same case.
OverlapPrediction predicted(const ScalingRequest& request, int dp, double backward_seconds) {
  const double bytes =
      static_cast<double>(request.model.total()) * static_cast<double>(request.element_bytes);
  return predict_overlap({.replicas = dp,
                          .gradient_bytes = bytes,
                          .buckets = request.model.parameters.size(),
                          .backward_seconds = backward_seconds,
                          .link = request.machine.cost(collectives::LinkKind::kIntra)});
}

// Parameters --------------------------------------------------------------------------------------

TEST(SizesOf, AreThoseOfARealModelInItsOrder) {
  const nn::ModelConfig config{.vocab_size = 61,
                               .hidden_size = 24,
                               .num_layers = 3,
                               .num_heads = 6,
                               .num_kv_heads = 2,
                               .ffn_hidden_size = 40};
  nn::DenseFactory factory;
  const nn::Model model(config, Device::cpu(), DType::kF32, 1, factory);
  std::vector<std::size_t> expected;
  for (const nn::Parameter* parameter : model.parameters()) {
    expected.push_back(parameter->value().numel());
  }
  const ModelSizes sizes = sizes_of(memory::shape_of(config));
  EXPECT_EQ(sizes.parameters, expected);
  EXPECT_EQ(sizes.total(), model.parameter_count());
}

TEST(SizesOf, AddUpToThePublishedModels) {
  for (const memory::TransformerShape& shape : memory::model_presets()) {
    EXPECT_EQ(sizes_of(shape).total(), memory::parameter_count(shape)) << shape.name;
  }
}

TEST(GradientReady, IsInBackwardOrderAndProportionalToTheSizes) {
  const ModelSizes model{.name = "untied", .parameters = {2, 3, 1, 2}};
  EXPECT_THAT(gradient_ready_seconds(model, 16.0), ElementsAre(16.0, 12.0, 6.0, 4.0));
}

TEST(GradientReady, OfATiedTableIsLastAlthoughItIsMultipliedFirst) {
  const ModelSizes model{.name = "tied", .parameters = {4, 3, 1}, .embeddings = Embeddings::kTied};
  EXPECT_THAT(gradient_ready_seconds(model, 16.0), ElementsAre(16.0, 16.0, 10.0));
}

TEST(BucketReady, IsTheLastOfItsGradients) {
  const std::vector<Bucket> buckets = {{.parameters = {3, 2}, .count = 2},
                                       {.parameters = {0, 1}, .count = 2}};
  EXPECT_THAT(bucket_ready_seconds(buckets, std::vector<double>{8.0, 7.0, 5.0, 1.0}),
              ElementsAre(5.0, 8.0));
}

TEST(StreamEnd, SendsInOrderAndOneAtATime) {
  const std::vector<double> ready = {1.0, 2.0, 10.0};
  EXPECT_EQ(stream_end(ready, std::vector<double>{1.0, 2.0, 3.0}), 13.0) << "the link rests";
  EXPECT_EQ(stream_end(ready, std::vector<double>{4.0, 7.0, 3.0}), 15.0) << "it does not";
  EXPECT_EQ(stream_end({}, {}), 0.0);
}

// Against the closed form -------------------------------------------------------------------------

/// Backward pass 0.25 s; a bucket takes 14 x (2^-20 + 2^18 / bandwidth) s on 8 replicas.
TEST(PredictScaling, IsTheOverlapConditionForEqualBucketsOnEqualLinks) {
  for (const double bandwidth : {kTwoTo30, kTwoTo30 / 16}) {
    const ScalingRequest request = exact_request({2, 4, 8}, bandwidth);
    for (const ScalingPoint& point : predict_scaling(request).points) {
      const OverlapPrediction expected = predicted(request, point.dp, 0.25);
      EXPECT_EQ(point.backward_seconds, 0.25);
      EXPECT_EQ(point.communication_seconds, expected.communication_seconds) << point.dp;
      EXPECT_EQ(point.exposed_seconds, expected.exposed_seconds) << point.dp;
      EXPECT_EQ(point.step_seconds, 0.375 + expected.exposed_seconds) << point.dp;
      const bool keeps_up = bandwidth == kTwoTo30;
      EXPECT_EQ(point.exposed_seconds == expected.bucket_seconds, keeps_up) << point.dp;
    }
  }
}

class PredictScalingOfRandomCases : public ultra::test::RandomTest {};

TEST_F(PredictScalingOfRandomCases, IsTheOverlapCondition) {
  for (int i = 0; i < 50 && !HasFailure(); ++i) {
    const int dp = static_cast<int>(random.between(2, 8));
    ScalingRequest request = exact_request({dp}, random.uniform(1e7, 1e10));
    // Divisible by all numbers of replicas: the closed form knows no longest chunk.
    request.model.parameters.assign(random.between(1, 30), 840 * random.between(1, 100));
    request.bucket_bytes = 0;
    request.machine.intra.latency = random.uniform(0.0, 1e-4);
    request.machine.gamma = random.uniform(0.0, 1e-9);
    request.peak_flops = random.uniform(1e10, 1e13);
    const ScalingPoint point = only_point(request);
    const OverlapPrediction expected = predicted(request, dp, point.backward_seconds);
    const double rounding = 1e-12 * (expected.communication_seconds + point.backward_seconds);
    EXPECT_NEAR(point.communication_seconds, expected.communication_seconds, rounding);
    EXPECT_NEAR(point.exposed_seconds, expected.exposed_seconds, rounding);
  }
}

/// The Ultra-Scale Playbook's condition at 989 TFLOP/s and 450 GB/s: its 961.5 tokens for 8 replicas
/// count elements, and are twice as many in bytes of bf16.
TEST(PredictScaling, FindsThePublishedThreshold) {
  ScalingRequest request = request_for("llama-8b", {8});
  request.machine = collectives::parse_topology("h100-line-rate,intra-us=0");
  request.algorithm = "ring";
  request.mfu = 1.0;
  const ScalingPoint point = only_point(request);
  // Norm weights of 4096 elements divide by 8, as all others do.
  EXPECT_NEAR(point.tokens_to_hide, 2 * 961.5, 0.1);
  const auto tokens = static_cast<double>(point.tokens_per_rank);
  EXPECT_NEAR(point.overlap_ratio, overlap_ratio(8, tokens, 2, 989e12, 450e9), 1e-12);
  EXPECT_NEAR(point.bus_bandwidth, 450e9, 1.0);
}

/// Two levels: reduce-scatter and all-gather in the node, a ring of an eighth between nodes.
TEST(AllReduceSeconds, OfTwoLevelsAreTheClosedForm) {
  const Topology machine = machine_for(1024, collectives::parse_topology("h100"));
  const std::vector<Bucket> buckets = {{.parameters = {1}, .count = 1024 * 16384},
                                       {.parameters = {0}, .count = 1024}};
  const auto seconds = all_reduce_seconds(buckets, 2, "two-level", machine);
  const auto form = collectives::closed_form(OpKind::kAllReduce, "two-level", machine,
                                             collectives::tuning_for("two-level", machine));
  ASSERT_TRUE(form.has_value());
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const double expected = form->seconds(2.0 * static_cast<double>(buckets[i].count));
    EXPECT_NEAR(seconds.at(i), expected, 1e-11 * expected);
  }
}

// What must hold for any model --------------------------------------------------------------------

TEST(PredictScaling, OneReplicaHasNoCommunication) {
  const ScalingPoint point = only_point(request_for("llama-1b", {1}));
  EXPECT_EQ(point.communication_seconds, 0.0);
  EXPECT_EQ(point.exposed_seconds, 0.0);
  EXPECT_EQ(point.overlap_ratio, 0.0);
  EXPECT_EQ(point.tokens_to_hide, 0.0);
  EXPECT_EQ(point.step_seconds, point.forward_seconds + point.backward_seconds);
  EXPECT_NEAR(point.efficiency, 1.0, 1e-12);
  // 989 TFLOP/s x 0.4 / (6 x 1,235,814,400).
  EXPECT_NEAR(point.tokens_per_second, 53352.0, 0.5);
}

/// The share of the step that is computation: 1 replica computes all the time.
TEST(PredictScaling, WeakScalingEfficiencyIsComputationOverStep) {
  ScalingRequest request = request_for("llama-1b", {1, 2, 8, 64, 256});
  request.batch_rule = BatchRule::kPerRank;
  request.batch = 1;
  const ScalingReport report = predict_scaling(request);
  for (const ScalingPoint& point : report.points) {
    const double computes = point.forward_seconds + point.backward_seconds;
    EXPECT_NEAR(point.efficiency, computes / (computes + point.exposed_seconds), 1e-12);
    EXPECT_NEAR(point.tokens_per_second, point.dp * 4096 / point.step_seconds, 1e-3);
    EXPECT_EQ(point.tokens_per_rank, 4096u);
  }
}

TEST(PredictScaling, MoreReplicasAreNeverMoreEfficient) {
  for (const BatchRule rule : {BatchRule::kGlobal, BatchRule::kPerRank}) {
    ScalingRequest request = request_for("llama-1b", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024});
    request.batch_rule = rule;
    request.batch = rule == BatchRule::kGlobal ? 1024 : 1;
    const ScalingReport report = predict_scaling(request);
    ASSERT_EQ(report.points.size(), request.dp.size());
    for (std::size_t i = 1; i < report.points.size(); ++i) {
      const ScalingPoint& fewer = report.points[i - 1];
      const ScalingPoint& more = report.points[i];
      EXPECT_LE(more.efficiency, fewer.efficiency) << more.dp;
      EXPECT_GE(more.communication_seconds, fewer.communication_seconds) << more.dp;
      EXPECT_GE(more.overlap_ratio, fewer.overlap_ratio) << more.dp;
    }
    ASSERT_NE(report.first_link_bound(), nullptr);
    EXPECT_EQ(report.first_link_bound()->dp, rule == BatchRule::kGlobal ? 512 : 128);
  }
}

TEST(PredictScaling, FasterLinksAndLargerBatchesExposeLess) {
  ScalingRequest request = request_for("llama-1b", {64});
  request.batch_rule = BatchRule::kPerRank;
  request.batch = 1;
  const ScalingPoint base = only_point(request);
  request.machine = collectives::parse_topology("h100,nics=1");
  EXPECT_GT(only_point(request).exposed_seconds, base.exposed_seconds);
  request.machine = collectives::parse_topology("h100,inter-gb-per-second=100");
  EXPECT_LT(only_point(request).exposed_seconds, base.exposed_seconds);
  request.batch = 8;
  EXPECT_GT(only_point(request).efficiency, base.efficiency);
}

/// Latency of many small buckets against a late start of few large ones.
TEST(PredictScaling, HasABestBucketSize) {
  ScalingRequest request = request_for("llama-1b", {256});
  request.batch_rule = BatchRule::kPerRank;
  request.batch = 1;
  const auto exposed = [&](double mb) {
    request.bucket_bytes = mb * 1e6;
    return only_point(request).exposed_seconds;
  };
  EXPECT_LT(exposed(400), exposed(25));
  EXPECT_LT(exposed(400), exposed(2500));
}

TEST(PredictScaling, OnlyTheLastMicroBatchHides) {
  ScalingRequest request = exact_request({4}, kTwoTo30 / 16);
  request.batch = 10;
  request.micro_batch = 4;
  const ScalingPoint point = only_point(request);
  EXPECT_EQ(point.backward_seconds, 0.625) << "10 sequences";
  EXPECT_EQ(point.hiding_seconds, 0.125) << "the last 2";
  EXPECT_EQ(point.exposed_seconds, predicted(request, 4, 0.125).exposed_seconds);
  request.micro_batch = 10;
  EXPECT_EQ(only_point(request).hiding_seconds, 0.625);
  request.micro_batch = 11;
  EXPECT_EQ(only_point(request).hiding_seconds, 0.625);
}

/// 10 sequences on 4 replicas are 3, 3, 2 and 2.
TEST(PredictScaling, TheLargestShareSetsThePace) {
  ScalingRequest request = exact_request({4}, 1e18);
  request.machine.intra.latency = 0.0;
  request.batch_rule = BatchRule::kGlobal;
  request.batch = 10;
  const ScalingPoint point = only_point(request);
  EXPECT_EQ(point.rank_batch, 3u);
  EXPECT_NEAR(point.efficiency, 10.0 / 12.0, 1e-9);
}

TEST(MachineFor, FillsANodeAndThenMore) {
  const Topology node = collectives::parse_topology("h100");
  EXPECT_EQ(machine_for(4, node).gpus_per_node, 4);
  EXPECT_EQ(machine_for(4, node).nics_per_node, 4);
  EXPECT_EQ(machine_for(8, node), node);
  EXPECT_EQ(machine_for(64, node), collectives::parse_topology("h100,nodes=8"));
}

// Refusals ----------------------------------------------------------------------------------------

TEST(PredictScaling, LeavesOutWhatCannotBe) {
  ScalingRequest request = request_for("llama-1b", {6, 8, 12, 16, 64, 8192});
  request.batch = 16;
  request.algorithm = "halving-doubling";
  const ScalingReport report = predict_scaling(request);
  ASSERT_EQ(report.points.size(), 2u);
  EXPECT_EQ(report.points[0].dp, 8);
  EXPECT_EQ(report.points[1].dp, 16);
  ASSERT_EQ(report.skipped.size(), 4u);
  EXPECT_THAT(report.skipped[0].reason, HasSubstr("power of two"));
  EXPECT_THAT(report.skipped[1].reason, HasSubstr("do not fill nodes of 8 GPUs"));
  EXPECT_THAT(report.skipped[2].reason, HasSubstr("global batch of 16 sequences"));
  EXPECT_THAT(report.skipped[3].reason, HasSubstr("at most 4096 ranks"));
}

template <class Change>
std::string refusal(Change&& change) {
  ScalingRequest request = request_for("llama-1b", {8});
  change(request);
  return test::message_of<ConfigError>([&] { static_cast<void>(predict_scaling(request)); });
}

/// What no flag can ask for; scaling_options_test.cpp has the rest.
TEST(PredictScalingRefuses, WhatCannotBe) {
  EXPECT_THAT(refusal([](auto& r) { r.dp = {}; }), HasSubstr("--scale is empty"));
  EXPECT_THAT(refusal([](auto& r) { r.machine.nodes = 2; }), HasSubstr("describes one node"));
  EXPECT_THAT(refusal([](auto& r) { r.algorithm = "star"; }), HasSubstr("'star'"));
  EXPECT_THAT(refusal([](auto& r) { r.model = {}; }), HasSubstr("without parameters"));
}

}  // namespace
}  // namespace ultra::data_parallel
