#include "common/train/report/rank_meter.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "common/comm/run_ranks.hpp"

namespace ultra::train {
namespace {

void pass(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

TEST(RankMeter, WaitingForOthersIsNoCompute) {
  using Clock = std::chrono::steady_clock;
  using std::chrono::milliseconds;
  const auto between = [](Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
  };
  run_ranks(2, [&](Communicator& world) {
    const Device device = Device::cpu();
    const Tensor data = Tensor::zeros(device, {4}, DType::kF64);
    world.barrier().wait();
    RankMeter meter(world, device);
    const auto before = Clock::now();
    meter.step_began();
    const auto began = Clock::now();
    pass(milliseconds(20));
    if (world.rank() == 1) pass(milliseconds(300));  // rank 0 waits for it
    world.all_reduce(data).wait();
    const auto ends = Clock::now();
    meter.gradients_done();
    const auto after = Clock::now();
    pass(milliseconds(10));
    meter.step_ended();
    const RankSummary summary = meter.summary();
    const double exposed = summary.communication.exposed_seconds;
    EXPECT_EQ(summary.rank, world.rank());
    EXPECT_GE(summary.seconds.forward_backward, world.rank() == 1 ? 0.32 : 0.02);
    // How long a rank waits is the machine's affair; that it is no compute, but of the total, is not.
    EXPECT_GT(exposed, 0.0);
    EXPECT_GE(summary.seconds.forward_backward, between(began, ends) - exposed - 1e-6);
    EXPECT_LE(summary.seconds.forward_backward, between(before, after) - exposed + 1e-6);
    EXPECT_GE(summary.communication.busy_seconds, exposed);
    EXPECT_GE(summary.seconds.optimizer, 0.01);
    EXPECT_EQ(summary.seconds.compute,
              summary.seconds.forward_backward + summary.seconds.optimizer);
    EXPECT_GE(summary.seconds.total, summary.seconds.compute + exposed - 1e-6);
  });
}

TEST(RankMeter, WhatIsUnderWayAfterTheLastStepIsTimeButNoCompute) {
  using std::chrono::milliseconds;
  run_ranks(1, [](Communicator& world) {
    RankMeter meter(world, Device::cpu());
    meter.step_began();
    pass(milliseconds(5));
    meter.step_ended();
    pass(milliseconds(20));
    const RankSeconds before = meter.summary().seconds;
    meter.run_ended();
    const RankSeconds after = meter.summary().seconds;
    EXPECT_EQ(before.total, before.compute) << "between steps the time is not the training's";
    EXPECT_EQ(before.optimizer, before.compute) << "no gradients_done()";
    EXPECT_EQ(after.compute, before.compute);
    EXPECT_GE(after.total, before.total + 0.02);
  });
}

TEST(RankMeter, CountsNoTrafficOfTheSetUp) {
  run_ranks(2, [](Communicator& world) {
    const Device device = Device::cpu();
    const Tensor data = Tensor::zeros(device, {64}, DType::kF32);
    RankMeter meter(world, device);
    world.all_reduce(data).wait();
    EXPECT_EQ(meter.summary().communication[OpKind::kAllReduce].operations, 1U);
    meter.run_began();
    EXPECT_EQ(meter.summary().communication[OpKind::kAllReduce].operations, 0U);
  });
}

TEST(RankMeter, CountsNeitherTrafficNorTimeOfAPause) {
  run_ranks(2, [](Communicator& world) {
    const Device device = Device::cpu();
    const Tensor data = Tensor::zeros(device, {64}, DType::kF32);
    RankMeter meter(world, device);
    meter.step_began();
    world.all_reduce(data).wait();
    meter.step_ended();
    const RankSummary before = meter.summary();
    meter.pause();
    pass(std::chrono::milliseconds(30));
    for (int i = 0; i < 3; ++i) world.all_reduce(data).wait();
    meter.resume();
    const RankSummary after = meter.summary();
    EXPECT_EQ(after.communication.kinds, before.communication.kinds);
    EXPECT_EQ(after.seconds.compute, before.seconds.compute);
    EXPECT_EQ(after.seconds.total, before.seconds.total);
  });
}

TEST(RankMeter, CountsTrafficFromItsStartAndTheDevicesMemory) {
  run_ranks(2, [](Communicator& world) {
    const Device device = Device::cpu();
    const Tensor data = Tensor::zeros(device, {64}, DType::kF32, MemoryCategory::kGradients);
    world.all_reduce(data).wait();
    const RankMeter meter(world, device);
    EXPECT_EQ(meter.summary().communication[OpKind::kAllReduce].operations, 0U);
    EXPECT_EQ(meter.summary().communication[OpKind::kAllReduce].sent_bytes, 0U);
    world.all_reduce(data).wait();
    const RankSummary summary = meter.summary();
    EXPECT_EQ(summary.communication[OpKind::kAllReduce].operations, 1U);
    EXPECT_EQ(summary.communication[OpKind::kAllReduce].sent_bytes, 256U) << "2 (P-1)/P n";
    EXPECT_EQ(summary.memory.peak(MemoryCategory::kGradients).bytes, 256U);
    EXPECT_EQ(summary.reserved_bytes, device.reserved_bytes());
    EXPECT_EQ(summary.system_allocations, device.system_allocations());
  });
}

TEST(ExchangeSummaries, GivesEveryRankAll) {
  run_ranks(3, [](Communicator& world) {
    RankSummary own;
    own.rank = world.rank();
    own.reserved_bytes = 1000 + static_cast<std::size_t>(world.rank());
    own.seconds.idle = 1.0 / (1 + world.rank());
    const std::vector<RankSummary> all = exchange_summaries(world, own);
    ASSERT_EQ(all.size(), 3U);
    for (int rank = 0; rank < 3; ++rank) {
      const RankSummary& one = all[static_cast<std::size_t>(rank)];
      EXPECT_EQ(one.rank, rank);
      EXPECT_EQ(one.reserved_bytes, 1000U + static_cast<std::size_t>(rank));
      EXPECT_EQ(one.seconds.idle, 1.0 / (1 + rank));
    }
  });
}

}  // namespace
}  // namespace ultra::train
