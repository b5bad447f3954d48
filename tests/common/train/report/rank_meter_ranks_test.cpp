// Covers: common/train/report/rank_clock.hpp

#include "common/train/report/rank_meter.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "common/comm/run_ranks.hpp"
#include "common/train/report/rank_clock.hpp"
#include "common/train/run/trainer.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/rank_runs.hpp"

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

class ClockOffset : public ultra::test::RandomTest {
 protected:
  /// Readings of a clock that is `offset` ahead, over ways of `shortest` seconds and more.
  std::vector<ClockReading> readings(double offset, double shortest) {
    std::vector<ClockReading> result;
    double now = 1000.0;
    for (int i = 0; i < 8; ++i) {
      const double there = shortest + random.uniform(0.0, 1e-3);
      const double back = shortest + random.uniform(0.0, 1e-3);
      result.push_back(
          {.asked = now, .told = now + there + offset, .answered = now + there + back});
      now += 1.0;
    }
    return result;
  }
};

TEST_F(ClockOffset, IsFoundToHalfTheShortestWay) {
  for (const double offset : {5.0, -5.0, 1e6, -0.05}) {
    const std::vector<ClockReading> given = readings(offset, 1e-4);
    double shortest = 1.0;
    for (const ClockReading& r : given) shortest = std::min(shortest, r.answered - r.asked);
    EXPECT_NEAR(clock_offset(given), offset, shortest / 2 + 1e-9);
  }
}

TEST_F(ClockOffset, OneClockHasNone) {
  EXPECT_EQ(clock_offset(readings(0.0, 1e-6)), 0.0) << "exactly";
}

TEST_F(ClockOffset, OneReadingOutsideItsWayIsAnotherClock) {
  std::vector<ClockReading> given = readings(0.0, 1e-4);
  for (ClockReading& reading : given) reading.told += 0.01;
  EXPECT_NEAR(clock_offset(given), 0.01, 1.1e-3);
}

TEST(CommonMoment, IsTheSameOnAllRanksOfAMachine) {
  for (const int size : {1, 2, 4}) {
    run_ranks(size, [&](Communicator& world) {
      const auto before = std::chrono::steady_clock::now();
      world.barrier().wait();  // rank 0 comes out of it after every rank has come to it
      const auto moment = common_moment(world);
      EXPECT_LE(moment, std::chrono::steady_clock::now());
      EXPECT_GE(moment, before);
      const std::chrono::duration<double> seconds = moment.time_since_epoch();
      ultra::test::expect_same_on_all(world, {seconds.count()});
    });
  }
}

using nlohmann::json;

/// The spans of each track of a recorder.
std::map<std::string, std::vector<json>> tracks_of(const trace::TraceRecorder& recorder) {
  std::map<int, std::string> names;
  std::map<std::string, std::vector<json>> tracks;
  const json trace = json::parse(recorder.json());
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name") {
      names[event.at("tid")] = event.at("args").at("name");
    } else if (event.at("ph") == "X") {
      tracks[names.at(event.at("tid"))].push_back(event);
    }
  }
  return tracks;
}

TEST(CommTrace, OperationsSideBySideStandInTracksOfTheirOwn) {
  run_ranks(1, [](Communicator& world) {
    const auto start = trace::TraceRecorder::Clock::now();
    const auto at = [&](int us) { return start + std::chrono::microseconds(us); };
    trace::TraceRecorder recorder(0, start);
    CommTrace comm_trace(world, &recorder);
    const auto ended = [&](const char* label, int begin, int end) {
      comm_trace.operation_ended({.kind = OpKind::kAllReduce,
                                  .communicator = "dp",
                                  .communicator_id = 0,
                                  .sequence = 0,
                                  .count = 1,
                                  .dtype = DType::kF32,
                                  .op = ReduceOp::kSum,
                                  .root = 0,
                                  .label = label},
                                 4, at(begin), at(end));
    };
    ended("a", 0, 10);
    ended("b", 5, 12);
    ended("c", 10, 20);
    ended("d", 11, 21);
    ended("e", 12, 22);
    comm_trace.stop();
    std::map<std::string, std::string> names;
    for (const auto& [track, spans] : tracks_of(recorder)) {
      for (const json& span : spans) names[track] += span.at("name").get<std::string>() + "; ";
    }
    EXPECT_EQ(names["communication"], "all_reduce dp: a; all_reduce dp: c; ");
    EXPECT_EQ(names["communication 2"], "all_reduce dp: b; all_reduce dp: e; ");
    EXPECT_EQ(names["communication 3"], "all_reduce dp: d; ");
  });
}

}  // namespace
}  // namespace ultra::train
