// Covers: common/trace/step_timeline.hpp

#include "common/trace/trace_recorder.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/tensor/tensor.hpp"
#include "common/trace/step_timeline.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::trace {
namespace {

using nlohmann::json;

/// The events of one kind ("X" spans, "C" counters, "M" names), in the file's order.
std::vector<json> events_of(const TraceRecorder& recorder, const std::string& kind) {
  std::vector<json> result;
  const json trace = json::parse(recorder.json());
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == kind) result.push_back(event);
  }
  return result;
}

TEST(TraceRecorder, WritesWhatPerfettoAsksFor) {
  TraceRecorder recorder(3);
  recorder.add_span("compute", "forward \"quoted\"\n", 10.5, 30.25);
  recorder.add_span("communication", "all_reduce", 12.0, 12.0);
  recorder.add_counter("memory", {{"parameters", 4096.0}, {"other", 0.0}});
  const json trace = json::parse(recorder.json());
  ASSERT_TRUE(trace.is_object());
  ASSERT_TRUE(trace.at("traceEvents").is_array());

  const std::vector<json> spans = events_of(recorder, "X");
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].at("name"), "forward \"quoted\"\n") << "names must be escaped";
  EXPECT_EQ(spans[0].at("ts"), 10.5);
  EXPECT_EQ(spans[0].at("dur"), 19.75);
  EXPECT_EQ(spans[1].at("dur"), 0.0);
  for (const json& span : spans) {
    EXPECT_EQ(span.at("pid"), 3) << "the rank";
    EXPECT_TRUE(span.at("tid").is_number_integer());
  }
  EXPECT_NE(spans[0].at("tid"), spans[1].at("tid")) << "one row per track";

  const std::vector<json> counters = events_of(recorder, "C");
  ASSERT_EQ(counters.size(), 1U);
  EXPECT_EQ(counters[0].at("name"), "memory");
  EXPECT_EQ(counters[0].at("pid"), 3);
  EXPECT_EQ(counters[0].at("args"), (json{{"parameters", 4096.0}, {"other", 0.0}}))
      << "series of one counter are stacked";
  EXPECT_TRUE(counters[0].at("ts").is_number());
}

TEST(TraceRecorder, NamesTheRankAndTheTracks) {
  TraceRecorder recorder(7);
  recorder.add_span("step", "step 1", 0.0, 2.0);
  recorder.add_span("phase", "forward", 0.0, 1.0);
  recorder.add_span("step", "step 2", 2.0, 3.0);
  const std::vector<json> names = events_of(recorder, "M");
  ASSERT_EQ(names.size(), 3U) << "the process and two tracks";
  EXPECT_EQ(names[0].at("name"), "process_name");
  EXPECT_EQ(names[0].at("args").at("name"), "rank 7");
  std::set<std::string> tracks;
  for (const json& name : names) {
    if (name.at("name") != "thread_name") continue;
    EXPECT_EQ(name.at("pid"), 7);
    tracks.insert(name.at("args").at("name"));
    for (const json& span : events_of(recorder, "X")) {
      if (span.at("tid") != name.at("tid")) continue;
      EXPECT_EQ(name.at("args").at("name") == "step",
                span.at("name").get<std::string>().starts_with("step"));
    }
  }
  EXPECT_EQ(tracks, (std::set<std::string>{"phase", "step"}));
}

TEST(TraceRecorder, OrdersEventsByTheirBeginning) {
  TraceRecorder recorder(0);
  recorder.add_span("a", "third", 30.0, 31.0);
  recorder.add_span("a", "first", 1.0, 40.0);
  recorder.add_span("a", "second", 2.0, 3.0);
  const std::vector<json> spans = events_of(recorder, "X");
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[0].at("name"), "first");
  EXPECT_EQ(spans[1].at("name"), "second");
  EXPECT_EQ(spans[2].at("name"), "third");
}

TEST(TraceRecorder, CountsMicrosecondsFromItsStart) {
  const auto start = TraceRecorder::Clock::now();
  EXPECT_EQ(TraceRecorder(1, start).at(start + std::chrono::milliseconds(3)), 3000.0);
}

TEST(TraceRecorder, SpansShowTheirFigures) {
  TraceRecorder recorder(0);
  recorder.add_span("communication", "all_reduce", 1.0, 2.0, {{"sent_bytes", 4096.0}});
  recorder.add_span("phase", "forward", 3.0, 4.0);
  const std::vector<json> spans = events_of(recorder, "X");
  EXPECT_EQ(spans.at(0).at("args"), (json{{"sent_bytes", 4096.0}}));
  EXPECT_FALSE(spans.at(1).contains("args"));
}

TEST(TraceRecorder, TakesEventsFromManyThreads) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kEvents = 200;
  TraceRecorder recorder(0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&recorder, t] {
      for (std::size_t i = 0; i < kEvents; ++i) {
        const double begin = recorder.now();
        recorder.add_span("thread " + std::to_string(t), std::to_string(i), begin, recorder.now());
        recorder.add_counter("memory", {{"all", static_cast<double>(i)}});
        if (i % 50 == 0) static_cast<void>(recorder.json());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<json> spans = events_of(recorder, "X");
  EXPECT_EQ(spans.size(), kThreads * kEvents);
  std::set<std::pair<int, std::string>> distinct;
  for (const json& span : spans) distinct.emplace(span.at("tid"), span.at("name"));
  EXPECT_EQ(distinct.size(), kThreads * kEvents) << "each event once, in its thread's row";
  EXPECT_EQ(events_of(recorder, "C").size(), kThreads * kEvents);
}

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

TEST(StepTimeline, RecordsNothingAfterTheTracedSteps) {
  TraceRecorder recorder(0);
  run_steps(Device::cpu(), &recorder, 10, 2);
  const Timeline timeline(recorder);
  const std::vector<Span>& steps = timeline.tracks.at("step");
  const std::vector<Span>& phases = timeline.tracks.at("phase");
  ASSERT_EQ(steps.size(), 2U);
  ASSERT_EQ(phases.size(), 4U);
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const double earliest = i % 2 == 0 ? steps[i / 2].begin : phases[i - 1].end;
    EXPECT_LE(earliest, phases[i].begin + kTimeRounding);
    EXPECT_LE(phases[i].end, steps[i / 2].end + kTimeRounding);
  }
  EXPECT_EQ(timeline.memory.size(), 2U * 2U * 2U) << "two per tensor, phase and traced step";
  for (const json& counter : timeline.memory) {
    EXPECT_LE(counter.at("ts").get<double>(), steps.back().end + kTimeRounding);
  }
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
