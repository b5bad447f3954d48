#include "common/trace/trace_recorder.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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

TEST(TraceRecorder, MeasuresMicrosecondsFromItsStart) {
  const TraceRecorder recorder(0);
  const double begin = recorder.now();
  EXPECT_GE(begin, 0.0);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_GE(recorder.now() - begin, 2000.0);
}

TEST(TraceRecorder, CountersCarryTheTimeOfTheCall) {
  TraceRecorder recorder(0);
  const double before = recorder.now();
  recorder.add_counter("memory", {{"all", 1.0}});
  const double after = recorder.now();
  const double time = events_of(recorder, "C").at(0).at("ts");
  EXPECT_GE(time, before);
  EXPECT_LE(time, after);
}

TEST(TraceRecorder, SpansShowTheirFigures) {
  TraceRecorder recorder(0);
  recorder.add_span("communication", "all_reduce", 1.0, 2.0, {{"sent_bytes", 4096.0}});
  recorder.add_span("phase", "forward", 3.0, 4.0);
  const std::vector<json> spans = events_of(recorder, "X");
  EXPECT_EQ(spans.at(0).at("args"), (json{{"sent_bytes", 4096.0}}));
  EXPECT_FALSE(spans.at(1).contains("args"));
}

TEST(TraceRecorder, RanksThatStartAtOneMomentShareOneFile) {
  const auto start = TraceRecorder::Clock::now();
  const TraceRecorder early(0, start);
  TraceRecorder late(1, start + std::chrono::milliseconds(3));
  EXPECT_EQ(early.at(start + std::chrono::microseconds(5)), 5.0);
  EXPECT_EQ(late.at(start + std::chrono::microseconds(3500)), 500.0);
  late.add_span("phase", "forward", 7.0, 8.0);
  const std::vector<std::string> both = {early.events(), late.events()};
  const json trace = json::parse(join_timelines(both));
  std::set<int> ranks;
  for (const json& event : trace.at("traceEvents")) ranks.insert(event.at("pid").get<int>());
  EXPECT_EQ(ranks, (std::set<int>{0, 1}));
  EXPECT_EQ(trace.at("traceEvents").size(), 1U + 3U) << "a name; a name, a track and a span";
}

TEST(TraceRecorder, AnEmptyTimelineIsAFileTooThatOpens) {
  EXPECT_EQ(json::parse(TraceRecorder(0).json()).at("traceEvents").size(), 1U)
      << "only the rank's name";
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

}  // namespace
}  // namespace ultra::trace
