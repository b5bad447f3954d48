// Covers: chapters/05_tensor_sequence_parallel/scaling/tp_scaling_model.hpp

#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/02_collectives/simulator/cost_model.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"

namespace ultra::tensor_parallel {
namespace {

using collectives::LinkKind;
using collectives::Topology;
using testing::HasSubstr;

TpScalingRequest request_for(const memory::TransformerShape& model, std::vector<int> tp) {
  TpScalingRequest request{
      .model = model, .machine = collectives::parse_topology("h100"), .tp = std::move(tp)};
  return request;
}

TpScalingRequest request_for(const char* preset, std::vector<int> tp) {
  return request_for(memory::find_preset(preset), std::move(tp));
}

/// The Playbook's question: its micro-batches, too.
TpScalingRequest playbook_request() {
  TpScalingRequest request = request_for(playbook_model(), {});
  request.micro_batch.clear();
  for (const PlaybookFigure& figure : playbook_figures()) {
    request.tp.push_back(figure.tp);
    request.micro_batch.push_back(figure.micro_batch);
  }
  return request;
}

TpScalingPoint only_point(const TpScalingRequest& request) {
  const TpScalingReport report = predict_tp_scaling(request);
  EXPECT_EQ(report.points.size(), 1U);
  return report.points.at(0);
}

// Against closed forms ----------------------------------------------------------------------------

/// Seconds of a micro-batch's exchanges on one node, counted by hand: Korthikanti et al. 2022.
double ring_seconds(const TpScalingRequest& request, int tp) {
  const collectives::LinkCost link = request.machine.cost(LinkKind::kIntra);
  const auto tokens = static_cast<double>(request.seq_len * request.micro_batch.front());
  const double bytes = tokens * static_cast<double>(request.model.hidden_size) *
                       static_cast<double>(request.element_bytes);
  const auto layers = static_cast<double>(request.model.num_layers);
  const auto all_reduce = collectives::ring_all_reduce_cost(tp, link);
  const double loss = all_reduce.seconds(4 * tokens) + all_reduce.seconds(8 * tokens);
  if (request.sequence_parallel == SequenceParallel::kOff) {
    return (4 * layers + 2) * all_reduce.seconds(bytes) + loss;
  }
  return (6 * layers + 3) * collectives::ring_all_gather_cost(tp, link).seconds(bytes) +
         (4 * layers + 2) * collectives::ring_reduce_scatter_cost(tp, link).seconds(bytes) + loss;
}

class PredictTpScalingOfRandomCases : public ultra::test::RandomTest {
 protected:
  /// Sequences divide by tp^2 and the model by tp, so that the closed forms are exact.
  TpScalingRequest random_request(int tp) {
    const auto ranks = static_cast<std::size_t>(tp);
    TpScalingRequest request =
        request_for({.name = "random",
                     .num_layers = random.between(1, 6),
                     .hidden_size = 8 * ranks * random.between(1, 20),
                     .num_heads = 4 * ranks,
                     .num_kv_heads = ranks * random.pick<std::size_t>({1, 2, 4}),
                     .ffn_hidden_size = ranks * random.between(1, 100),
                     .vocab_size = ranks * random.between(1, 100)},
                    {tp});
    request.micro_batch = {random.between(1, 5)};
    request.seq_len = ranks * ranks * random.between(1, 9);
    request.sequence_parallel = random.pick({SequenceParallel::kOff, SequenceParallel::kOn});
    request.algorithm = random.pick({ExchangeAlgorithm::kRing, ExchangeAlgorithm::kTwoLevel});
    request.element_bytes = random.pick<std::size_t>({2, 4});
    request.peak_flops = random.uniform(1e11, 1e15);
    request.memory_bandwidth = random.uniform(1e10, 1e13);
    request.machine.intra = {.latency = random.uniform(0.0, 1e-4),
                             .bandwidth = random.uniform(1e9, 1e12)};
    request.machine.gamma = random.uniform(0.0, 1e-11);
    return request;
  }
};

TEST_F(PredictTpScalingOfRandomCases, CommunicatesAsLongAsTheRingsClosedFormsSay) {
  for (int i = 0; i < 50 && !HasFailure(); ++i) {
    const int tp = static_cast<int>(random.between(2, 8));
    const TpScalingRequest request = random_request(tp);
    const TpScalingPoint point = only_point(request);
    const double expected = ring_seconds(request, tp);
    EXPECT_NEAR(point.communication_seconds, expected, 1e-11 * expected);
    EXPECT_EQ(point.exposed_seconds, point.communication_seconds) << "nothing is hidden";
    EXPECT_EQ(point.inter_bytes, 0.0);
  }
}

TEST_F(PredictTpScalingOfRandomCases, AddsUp) {
  for (int i = 0; i < 50 && !HasFailure(); ++i) {
    const int tp = static_cast<int>(random.between(1, 4)) * 2;
    TpScalingRequest request = random_request(tp);
    request.machine.gpus_per_node = request.machine.nics_per_node = 2;
    request.hide = random.pick({Hide::kNothing, Hide::kWeightGradients});
    const TpScalingPoint point = only_point(request);
    EXPECT_EQ(point.nodes, tp / 2);
    const double sum = point.product_seconds + point.elementwise_seconds + point.exposed_seconds;
    EXPECT_NEAR(point.step_seconds, sum, 1e-12 * sum);
    EXPECT_GE(point.exposed_seconds, 0.0);
    EXPECT_LE(point.exposed_seconds, point.communication_seconds);
    EXPECT_NEAR(point.communication_share, point.exposed_seconds / sum, 1e-12);
    const auto tokens = static_cast<double>(request.micro_batch.front() * request.seq_len);
    const double rate = tokens / sum / tp;
    EXPECT_NEAR(point.tokens_per_second_per_rank, rate, 1e-12 * rate);
    // A machine whose node is as large gives what "in one node" says.
    request.machine.gpus_per_node = tp;
    const double one_node = only_point(request).tokens_per_second_per_rank;
    EXPECT_NEAR(point.one_node_tokens_per_second_per_rank, one_node, 1e-12 * one_node);
  }
}

/// As fast between nodes as inside, a NIC for each rank and no latency: two levels have the ring's
/// volume, (L-1)/L S + (N-1)/N S/L = (P-1)/P S.
TEST_F(PredictTpScalingOfRandomCases, ABorderThatIsNoneCostsNothing) {
  for (int i = 0; i < 50 && !HasFailure(); ++i) {
    TpScalingRequest request = random_request(8);
    request.machine.gpus_per_node = request.machine.nics_per_node = random.pick({1, 2, 4});
    request.machine.intra.latency = 0.0;
    request.machine.inter = request.machine.intra;
    const TpScalingPoint point = only_point(request);
    EXPECT_NEAR(point.tokens_per_second_per_rank, point.one_node_tokens_per_second_per_rank,
                1e-9 * point.tokens_per_second_per_rank);
  }
}

// What must hold for any model --------------------------------------------------------------------

TEST(PredictTpScaling, OneRankOnlyComputes) {
  const TpScalingPoint point = only_point(request_for("llama-1b", {1}));
  EXPECT_EQ(point.communication_seconds, 0.0);
  EXPECT_EQ(point.communication_share, 0.0);
  EXPECT_EQ(point.ratio_to_previous, std::nullopt);
  EXPECT_EQ(point.tokens_per_second_per_rank, point.one_node_tokens_per_second_per_rank);
  // 6 x (1,235,814,400 - 33 norms x 2048) + 6 x 4096 x 2048 x 16 FLOP per token at 0.4 x 989e12;
  // 16 x 22 + 5 arrays of 4096 bytes at 3.35e12 bytes/s.
  EXPECT_NEAR(point.step_seconds / (4 * 4096), 8.219787264e9 / 395.6e12 + 357 * 4096 / 3.35e12,
              1e-15);
}

TEST(PredictTpScaling, TheNodesBorderCosts) {
  for (const SequenceParallel sequence_parallel : {SequenceParallel::kOff, SequenceParallel::kOn}) {
    for (const ExchangeAlgorithm algorithm :
         {ExchangeAlgorithm::kRing, ExchangeAlgorithm::kTwoLevel}) {
      TpScalingRequest request = request_for("llama-70b", {1, 2, 4, 8, 16, 32, 64});
      request.sequence_parallel = sequence_parallel;
      request.algorithm = algorithm;
      const TpScalingReport report = predict_tp_scaling(request);
      ASSERT_NE(report.first_across_nodes(), nullptr);
      EXPECT_EQ(report.first_across_nodes()->tp, 16);
      for (std::size_t i = 1; i < report.points.size(); ++i) {
        const TpScalingPoint& point = report.points[i];
        const TpScalingPoint& fewer = report.points[i - 1];
        EXPECT_LT(point.tokens_per_second_per_rank, fewer.tokens_per_second_per_rank) << point.tp;
        EXPECT_NEAR(*point.ratio_to_previous,
                    point.tokens_per_second_per_rank / fewer.tokens_per_second_per_rank, 1e-12);
        EXPECT_EQ(point.inter_bytes > 0.0, point.tp > 8);
        if (point.tp > 8) {
          EXPECT_LT(point.tokens_per_second_per_rank, point.one_node_tokens_per_second_per_rank);
        } else {
          EXPECT_EQ(point.tokens_per_second_per_rank, point.one_node_tokens_per_second_per_rank);
        }
      }
      if (algorithm == ExchangeAlgorithm::kRing) {
        const auto worst = std::min_element(report.points.begin() + 1, report.points.end(),
                                            [](const TpScalingPoint& a, const TpScalingPoint& b) {
                                              return *a.ratio_to_previous < *b.ratio_to_previous;
                                            });
        EXPECT_EQ(worst->tp, 16) << "the first node that a ring leaves";
      }
    }
  }
}

TEST(PredictTpScaling, BetterLinksHelp) {
  const TpScalingRequest base = request_for("llama-8b", {16});
  const auto rate = [&](const char* machine) {
    TpScalingRequest request = base;
    request.machine = collectives::parse_topology(machine);
    return only_point(request).tokens_per_second_per_rank;
  };
  EXPECT_GT(rate("h100,inter-gb-per-second=100"), rate("h100"));
  EXPECT_GT(rate("h100,intra-gb-per-second=450"), rate("h100"));
  EXPECT_LT(rate("h100,nics=1"), rate("h100"));
  EXPECT_GT(rate("h100,gpus=16"), rate("h100"));
}

/// Norms and sums on a part of the tokens; but the inputs of columns are gathered twice: 10 halves
/// of an all-reduce per block instead of 4 whole ones.
TEST(PredictTpScaling, SequenceParallelismSplitsTheRestAndGathersAgain) {
  TpScalingRequest request = request_for("llama-8b", {8});
  request.machine.intra.latency = 0.0;
  const TpScalingPoint on = only_point(request);
  request.sequence_parallel = SequenceParallel::kOff;
  const TpScalingPoint off = only_point(request);
  EXPECT_EQ(on.product_seconds, off.product_seconds);
  EXPECT_NEAR(on.elementwise_seconds, off.elementwise_seconds / 8, 1e-12 * on.elementwise_seconds);
  EXPECT_NEAR(on.communication_seconds / off.communication_seconds, 5.0 / 4.0, 0.01);
}

/// Of 10 L + 5 halves of an all-reduce, input gradients are 2 L + 1: a fifth, the small loss aside.
TEST(PredictTpScaling, HidesNoMoreThanTheProductsTake) {
  TpScalingRequest request = request_for("llama-8b", {8});
  request.machine.intra = {.latency = 0.0, .bandwidth = 1e12};
  const TpScalingPoint nothing = only_point(request);
  request.hide = Hide::kWeightGradients;
  const TpScalingPoint hidden = only_point(request);
  EXPECT_EQ(hidden.communication_seconds, nothing.communication_seconds);
  EXPECT_NEAR(hidden.exposed_seconds, 0.8 * nothing.exposed_seconds,
              0.01 * nothing.exposed_seconds);

  // Links so slow that every such product is over first: 2 FLOP per token and weight of the
  // column-parallel matrices and the head.
  request.machine.intra.bandwidth = 1e6;
  const TpScalingPoint slow = only_point(request);
  const double weights = 32.0 * 4096 * (4096 + 2 * 1024 + 2 * 14336) + 4096.0 * 128256;
  const double products = 2.0 * 4 * 4096 * weights / 8 / (989e12 * 0.4);
  EXPECT_NEAR(slow.communication_seconds - slow.exposed_seconds, products, 1e-9 * products);
}

// The Playbook's figure ---------------------------------------------------------------------------

/// Its drop from 8 to 16 ranks, "around 43 %" in its text.
TEST(PlaybookFigures, AreThePublishedOnes) {
  const double eight = find_playbook_figure(8)->tokens_per_second_per_rank;
  const double sixteen = find_playbook_figure(16)->tokens_per_second_per_rank;
  EXPECT_EQ(eight, 10888.53);
  EXPECT_EQ(sixteen, 6159.3);
  EXPECT_NEAR(sixteen / eight, 1.0 - 0.434, 0.0005);
  EXPECT_EQ(find_playbook_figure(1), std::nullopt);
  EXPECT_EQ(memory::parameter_count(playbook_model()), 3'573'722'112U)
      << "3.57e9 in nanotron's benchmark";
}

/// A tenth: what the model claims of itself.
TEST(PredictTpScaling, IsNearWhatThePlaybookMeasured) {
  const TpScalingReport report = predict_tp_scaling(playbook_request());
  ASSERT_EQ(report.points.size(), 5U);
  for (const TpScalingPoint& point : report.points) {
    ASSERT_TRUE(point.published.has_value()) << point.tp;
    const double measured = point.published->tokens_per_second_per_rank;
    EXPECT_NEAR(point.tokens_per_second_per_rank, measured, 0.1 * measured) << point.tp;
  }
  EXPECT_NEAR(*report.points[3].ratio_to_previous, 1.0 - 0.434, 0.05);
}

TEST(PredictTpScaling, ShowsPublishedFiguresForTheirOwnQuestionOnly) {
  const auto shown_after = [](void (*change)(TpScalingRequest&)) {
    TpScalingRequest request = playbook_request();
    change(request);
    const TpScalingReport report = predict_tp_scaling(request);
    return std::ranges::count_if(
        report.points, [](const TpScalingPoint& point) { return point.published.has_value(); });
  };
  using Request = TpScalingRequest;
  EXPECT_EQ(shown_after([](Request&) {}), 5);
  EXPECT_EQ(shown_after([](Request& r) { r.micro_batch = {20}; }), 1) << "that of tp 8";
  EXPECT_EQ(shown_after([](Request& r) { r.seq_len = 8192; }), 0);
  EXPECT_EQ(shown_after([](Request& r) { r.sequence_parallel = SequenceParallel::kOff; }), 0);
  EXPECT_EQ(shown_after([](Request& r) {
              r.machine = collectives::parse_topology("h100,gpus=16,nics=16");
            }),
            0);
  EXPECT_EQ(shown_after([](Request& r) { r.model.num_layers = 27; }), 0);
  EXPECT_EQ(shown_after([](Request& r) { r.peak_flops = 312e12; }), 0);
}

// Refusals ----------------------------------------------------------------------------------------

template <class Change>
std::string refusal(Change&& change) {
  TpScalingRequest request = request_for("llama-8b", {8});
  change(request);
  return test::message_of<ConfigError>([&] { static_cast<void>(predict_tp_scaling(request)); });
}

/// What no flag can ask for; tp_scaling_options_test.cpp has the rest.
TEST(PredictTpScalingRefuses, WhatCannotBe) {
  EXPECT_THAT(refusal([](auto& r) { r.tp = {}; }), HasSubstr("--scale-tp is empty"));
  EXPECT_THAT(refusal([](auto& r) { r.machine.nodes = 2; }),
              HasSubstr("--scale-tp-machine describes one node"));
  EXPECT_THAT(refusal([](auto& r) { r.model.num_layers = 0; }),
              HasSubstr("No number of ranks does."));
}

}  // namespace
}  // namespace ultra::tensor_parallel
