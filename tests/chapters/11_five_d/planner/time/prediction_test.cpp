// Predictions: what replicas exchange, and how times change with the layout.
//
// Covers: chapters/11_five_d/planner/time/prediction.hpp
#include "chapters/11_five_d/planner/time/prediction.hpp"

#include <gtest/gtest.h>

#include "chapters/11_five_d/planner/search/reasons.hpp"
#include "tests/support/random.hpp"

namespace ultra::planner {
namespace {

using zero::ZeroStage;

class Predictions : public ultra::test::RandomTest {
 protected:
  static Question question(std::size_t batch = 256) {
    return {.work = {.model = *find_model("llama-8b"), .seq_len = 4096, .global_batch = batch},
            .cluster = *replay::find_cluster("dgx-h100"),
            .software = find_software("modern")};
  }
  static replay::Cluster without_latency(replay::Cluster cluster) {
    cluster.intra.latency = 0;
    cluster.inter.latency = 0;
    return cluster;
  }
};

TEST_F(Predictions, VolumesOfZero) {
  // In units of an all-gather of the parameters in bf16: gradients in fp32 are twice as much.
  Question q = question();
  q.cluster = without_latency(q.cluster);
  const StageParameters held{.others = 1e9};
  const auto exchange = [&](ZeroStage stage) {
    return data_exchange(q, {.dp = 64, .zero = stage}, held);
  };
  const double gather = exchange(ZeroStage::kOptimizer).parameters;
  EXPECT_NEAR(exchange(ZeroStage::kNone).gradients, 4 * gather, 0.03 * gather);
  EXPECT_NEAR(exchange(ZeroStage::kOptimizer).gradients, 2 * gather, 1e-9);
  EXPECT_EQ(exchange(ZeroStage::kOptimizer).each_micro_batch, 0);
  EXPECT_NEAR(exchange(ZeroStage::kGradients).each_micro_batch, 2 * gather, 1e-9);
  EXPECT_NEAR(exchange(ZeroStage::kParameters).each_micro_batch, 4 * gather, 1e-9);
  EXPECT_EQ(exchange(ZeroStage::kParameters).parameters, 0);
}

TEST_F(Predictions, ZeroThreeExchangesForEveryMicroBatch) {
  Question q = question();
  q.cluster = without_latency(q.cluster);
  q.software.overlaps_data = false;
  const Layout few{.dp = 64, .zero = ZeroStage::kParameters, .micro_batch = 4};
  Layout many = few;
  many.micro_batch = 1;
  EXPECT_NEAR(predict(q, many).step.data / predict(q, few).step.data, 4, 0.01);
}

TEST_F(Predictions, WhatIsHiddenCostsWhatTheNetworkSteals) {
  Question q = question();
  const Layout layout{.dp = 64, .micro_batch = 4};
  ASSERT_EQ(predict(q, layout).step.data, 0);
  const double passes = predict(q, layout).step.passes;
  Question apart = q;
  apart.software.overlaps_data = false;
  const double exchange = predict(apart, layout).step.data;
  for (const double stolen : {0.0, 0.25, 1.0}) {
    q.cluster.network_steals = stolen;
    EXPECT_NEAR(predict(q, layout).step.data, stolen * exchange, 1e-12);
    EXPECT_EQ(predict(q, layout).step.passes, passes);
    // Inside a node nothing crosses the network.
    EXPECT_EQ(predict(q, {.dp = 8, .micro_batch = 4}).step.data, 0);
  }
}

TEST_F(Predictions, WhatIsNotGatheredAheadIsWaitedFor) {
  Question q = question();
  q.cluster = without_latency(q.cluster);
  q.cluster.inter.bandwidth *= 100;
  q.cluster.intra.bandwidth *= 100;
  const auto data = [&](ZeroStage stage, std::size_t micro_batch, bool overlaps, bool ahead) {
    q.software.overlaps_data = overlaps;
    q.software.gathers_ahead = ahead;
    return predict(q, {.dp = 64, .zero = stage, .micro_batch = micro_batch}).step.data;
  };
  for (const std::size_t micro_batch : {1U, 4U}) {
    for (const ZeroStage stage : {ZeroStage::kOptimizer, ZeroStage::kParameters}) {
      ASSERT_EQ(data(stage, micro_batch, true, true), 0);
    }
    // The new weights, of two bytes where gradients have four.
    const double whole = data(ZeroStage::kOptimizer, micro_batch, false, false);
    EXPECT_NEAR(data(ZeroStage::kOptimizer, micro_batch, true, false), whole / 3, 1e-9);
    // Of 32 blocks one at each end of every pass.
    const double of_three = data(ZeroStage::kParameters, micro_batch, false, false);
    EXPECT_NEAR(data(ZeroStage::kParameters, micro_batch, true, false), of_three / 32, 1e-9);
  }
}

TEST_F(Predictions, ZeroThreePaysTheRingsLatencyForEveryBlock) {
  Question q = question(1024);
  q.cluster.inter.bandwidth = 1e15;
  q.cluster.intra.bandwidth = 1e15;
  q.cluster.inter.latency = 1e-5;
  q.cluster.intra.latency = 1e-5;
  const StageParameters held{.others = 8e9};
  const Layout layout{.dp = 1024, .zero = ZeroStage::kParameters};
  // 32 blocks, gathered twice and summed once, over 1,023 hops each.
  EXPECT_NEAR(data_exchange(q, layout, held).each_micro_batch, 32 * 3 * 1023 * 1e-5, 1e-3);
}

TEST_F(Predictions, PartsAddUpToTheStep) {
  for (int round = 0; round < 20; ++round) {
    const Layout layout{
        .dp = random.pick({1U, 4U, 16U}),
        .pp = random.pick({1U, 2U, 4U}),
        .cp = random.pick({1U, 2U}),
        .tp = random.pick({1U, 4U, 8U}),
        .recompute = random.pick(
            {memory::Recompute::kNone, memory::Recompute::kSelective, memory::Recompute::kFull})};
    const Prediction p = predict(question(), layout);
    double total = 0;
    for (const TimeShare& share : time_shares(p)) {
      EXPECT_GE(share.seconds, 0) << share.what;
      total += share.seconds;
    }
    EXPECT_NEAR(total / p.step.total(), 1, 1e-9) << layout.str();
    EXPECT_NEAR(p.mfu * question().cluster.gpu.peak_flops, p.flops_per_gpu, 1);
    EXPECT_LT(p.mfu, 1);
  }
}

TEST_F(Predictions, FasterMachinesAreNeverSlower) {
  for (int round = 0; round < 30; ++round) {
    const Layout layout{.dp = random.pick({4U, 16U}),
                        .pp = random.pick({1U, 4U}),
                        .cp = random.pick({1U, 4U}),
                        .tp = random.pick({1U, 8U})};
    const double before = predict(question(), layout).step.total();
    for (const WhatIf& one : what_ifs(question(), predict(question(), layout))) {
      if (one.change != "twice the global batch") {
        EXPECT_GE(one.gain, -1e-12) << one.change << " " << layout.str() << " " << before;
      }
    }
  }
}

TEST_F(Predictions, TpAcrossNodesIsSlower) {
  Question q = question();
  const double inside = predict(q, {.dp = 8, .tp = 8}).passes.tensor_exchange;
  const double across = predict(q, {.dp = 4, .tp = 16}).passes.tensor_exchange;
  EXPECT_GT(across, 1.5 * inside);
}

}  // namespace
}  // namespace ultra::planner
