#include "common/train/report/comm_trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/comm/run_ranks.hpp"

namespace ultra::train {
namespace {

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

TEST(CommTrace, RecordsOperationsAndWaits) {
  run_ranks(2, [](Communicator& world) {
    const Device device = Device::cpu();
    const Tensor data = Tensor::zeros(device, {100}, DType::kF64);
    trace::TraceRecorder recorder(world.rank());
    CommTrace comm_trace(world, &recorder);
    world.all_reduce(data).wait();
    const Communicator pair = world.split([](int) { return 0; }, "dp");
    pair.broadcast(data, 0).wait();
    pair.labeled("bucket 2").all_reduce(data).wait();
    comm_trace.stop();
    world.all_reduce(data).wait();

    const std::map<std::string, std::vector<json>> tracks = tracks_of(recorder);
    std::map<std::string, json> operations;
    for (const json& span : tracks.at("communication")) operations[span.at("name")] = span;
    ASSERT_EQ(operations.count("all_reduce world"), 1U);
    ASSERT_EQ(operations.count("broadcast dp"), 1U);
    ASSERT_EQ(operations.count("all_reduce dp: bucket 2"), 1U);
    EXPECT_EQ(operations["all_reduce world"].at("args").at("elements"), 100);
    EXPECT_EQ(operations["all_reduce world"].at("args").at("sent_bytes"), 800)
        << "2 (P-1)/P of 800 bytes";
    bool waited = false;
    for (const json& span : tracks.at("waiting")) {
      waited = waited || span.at("name") == "all_reduce world";
    }
    EXPECT_TRUE(waited) << "a blocking call waits";
    const std::vector<json>& all = tracks.at("communication");
    EXPECT_EQ(std::count_if(all.begin(), all.end(),
                            [](const json& s) { return s.at("name") == "all_reduce world"; }),
              1)
        << "nothing after stop()";
  });
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

TEST(CommTrace, WithoutARecorderObservesNothing) {
  run_ranks(2, [](Communicator& world) {
    const CommTrace comm_trace(world, nullptr);
    world.barrier().wait();
  });
}

}  // namespace
}  // namespace ultra::train
