#include "common/trace/step_timeline.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/tensor/tensor.hpp"

namespace ultra::trace {
namespace {

using nlohmann::json;

struct Span {
  std::string name;
  double begin;
  double end;
};

/// What a recorder holds: the spans of each track, and the memory counters.
struct Timeline {
  std::map<std::string, std::vector<Span>> tracks;
  std::vector<json> memory;

  explicit Timeline(const TraceRecorder& recorder) {
    std::map<int, std::string> names;
    const json trace = json::parse(recorder.json());
    for (const json& event : trace.at("traceEvents")) {
      if (event.at("name") == "thread_name") {
        names[event.at("tid")] = event.at("args").at("name");
      } else if (event.at("ph") == "X") {
        const double begin = event.at("ts");
        tracks[names.at(event.at("tid"))].push_back(
            {event.at("name"), begin, begin + event.at("dur").get<double>()});
      } else if (event.at("ph") == "C") {
        memory.push_back(event);
      }
    }
  }
};

/// Two phases, each of which allocates and frees a tensor.
void run_steps(const Device& device, TraceRecorder* recorder, std::size_t steps,
               std::size_t traced) {
  StepTimeline timeline(device, recorder, traced);
  for (std::size_t step = 1; step <= steps; ++step) {
    timeline.begin_step(step);
    for (const char* phase : {"forward", "backward"}) {
      timeline.enter(phase);
      static_cast<void>(Tensor::empty(device, {step}, DType::kF64, MemoryCategory::kActivations));
    }
    timeline.end_step();
  }
}

/// The end of a span is stored as begin + duration: one rounding of a number of microseconds.
constexpr double kTimeRounding = 1e-3;

TEST(StepTimeline, PhasesFollowEachOtherWithinTheirStep) {
  TraceRecorder recorder(0);
  run_steps(Device::cpu(), &recorder, 3, 3);
  const Timeline timeline(recorder);
  const std::vector<Span>& steps = timeline.tracks.at("step");
  const std::vector<Span>& phases = timeline.tracks.at("phase");
  ASSERT_EQ(steps.size(), 3U);
  ASSERT_EQ(phases.size(), 6U);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].name, "step " + std::to_string(i + 1));
    const Span& forward = phases[2 * i];
    const Span& backward = phases[2 * i + 1];
    EXPECT_EQ(forward.name, "forward");
    EXPECT_EQ(backward.name, "backward");
    EXPECT_LE(steps[i].begin, forward.begin + kTimeRounding);
    EXPECT_LE(forward.begin, forward.end);
    EXPECT_LE(forward.end, backward.begin + kTimeRounding);
    EXPECT_LE(backward.end, steps[i].end + kTimeRounding);
    if (i > 0) {
      EXPECT_LE(steps[i - 1].end, steps[i].begin + kTimeRounding);
    }
  }
}

TEST(StepTimeline, EveryChangeOfMemoryIsACounterOfAllCategories) {
  TraceRecorder recorder(0);
  const Device device = Device::cpu();
  {
    StepTimeline timeline(device, &recorder, 1);
    timeline.begin_step(1);
    timeline.enter("forward");
    const Tensor weights = Tensor::empty(device, {10}, DType::kF32, MemoryCategory::kParameters);
    const Tensor moments = Tensor::empty(device, {20}, DType::kF32, MemoryCategory::kOptimizer);
    moments.set_category(MemoryCategory::kActivations);
    timeline.end_step();
  }
  const std::vector<json> memory = Timeline(recorder).memory;
  ASSERT_EQ(memory.size(), 5U) << "two allocations, a move, two releases";
  const double optimizer[] = {0, 80, 0, 0, 0};
  const double activations[] = {0, 0, 80, 0, 0};
  const double parameters[] = {40, 40, 40, 40, 0};
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const json& values = memory[i].at("args");
    EXPECT_EQ(memory[i].at("name"), "memory");
    ASSERT_EQ(values.size(), kNumMemoryCategories) << "a stack needs all its layers each time";
    EXPECT_EQ(values.at("parameters"), parameters[i]);
    EXPECT_EQ(values.at("optimizer"), optimizer[i]);
    EXPECT_EQ(values.at("activations"), activations[i]);
    EXPECT_EQ(values.at("gradients"), 0.0);
    EXPECT_EQ(values.at("communication"), 0.0);
    EXPECT_EQ(values.at("other"), 0.0);
  }
}

TEST(StepTimeline, RecordsNothingAfterTheTracedSteps) {
  TraceRecorder recorder(0);
  run_steps(Device::cpu(), &recorder, 10, 2);
  const Timeline timeline(recorder);
  EXPECT_EQ(timeline.tracks.at("step").size(), 2U);
  EXPECT_EQ(timeline.tracks.at("phase").size(), 4U);
  EXPECT_EQ(timeline.memory.size(), 2U * 2U * 2U) << "two per tensor, phase and traced step";
  for (const json& counter : timeline.memory) {
    EXPECT_LE(counter.at("ts").get<double>(),
              timeline.tracks.at("step").back().end + kTimeRounding);
  }
}

TEST(StepTimeline, NoTracedStepsLeaveOnlyTheTimeBeforeTheFirst) {
  TraceRecorder recorder(0);
  run_steps(Device::cpu(), &recorder, 3, 0);
  EXPECT_TRUE(Timeline(recorder).tracks.empty());
  EXPECT_TRUE(Timeline(recorder).memory.empty());
}

TEST(StepTimeline, NamesThePeaksOfMemoryWithOrWithoutARecorder) {
  const Device device = Device::cpu();
  run_steps(device, nullptr, 3, 4);
  EXPECT_EQ(device.memory().peak(MemoryCategory::kActivations).bytes, 3 * sizeof(double));
  EXPECT_EQ(device.memory().peak(MemoryCategory::kActivations).phase, "step 3: forward")
      << "the first phase that reached the peak";
}

TEST(StepTimeline, StopsListeningWhenItEnds) {
  TraceRecorder recorder(0);
  const Device device = Device::cpu();
  run_steps(device, &recorder, 1, 4);
  const std::size_t before = Timeline(recorder).memory.size();
  static_cast<void>(Tensor::empty(device, {5}, DType::kF32));
  EXPECT_EQ(Timeline(recorder).memory.size(), before);
}

}  // namespace
}  // namespace ultra::trace
