// Covers: common/train/run/trainer.hpp
//
// What a training run leaves behind and takes: files, memory of each category, the trace.

#include <map>
#include <nlohmann/json.hpp>

#include "common/train/run/trainer.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/plain_training.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::train {
namespace {

using nlohmann::json;

TEST(TrainingMemory, NothingIsAskedFromTheSystemAfterTheSecondStep) {
  TrainOptions options = test::short_run();
  options.steps = 3;
  const TrainResult three = test::train_quietly(options);
  options.steps = 12;
  const TrainResult twelve = test::train_quietly(options);
  EXPECT_EQ(twelve.ranks.at(0).system_allocations, three.ranks.at(0).system_allocations);
  EXPECT_EQ(twelve.ranks.at(0).reserved_bytes, three.ranks.at(0).reserved_bytes);
  options.steps = 2;
  EXPECT_EQ(test::train_quietly(options).ranks.at(0).system_allocations,
            three.ranks.at(0).system_allocations)
      << "the second step's optimizer states are the last new tensors";
}

TEST(TrainingMemory, StatesAreCountedByTheirCategory) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    TrainOptions options = test::short_run();
    options.dtype = dtype;
    const TrainResult result = test::train_quietly(options);
    const MemoryPeaks& memory = result.ranks.at(0).memory;
    const std::size_t bytes = result.parameters * size_of(dtype);
    EXPECT_EQ(memory.peak(MemoryCategory::kParameters).bytes, bytes);
    EXPECT_EQ(memory.peak(MemoryCategory::kGradients).bytes, bytes);
    EXPECT_EQ(memory.peak(MemoryCategory::kOptimizer).bytes, 2 * bytes);
    EXPECT_EQ(memory.peak(MemoryCategory::kCommunication).bytes, 0U);
    EXPECT_EQ(memory.peak(MemoryCategory::kParameters).phase, "setup");
    EXPECT_EQ(memory.peak(MemoryCategory::kOptimizer).phase, "step 1: optimizer");
    EXPECT_THAT(memory.peak(MemoryCategory::kActivations).phase, HasSubstr("step 1: "));
  }
}

/// The trace of a run: spans by name, and the memory in use after each change.
struct Trace {
  struct Span {
    double begin = 0;
    double end = 0;
  };
  struct Usage {
    double time;
    std::map<std::string, double> bytes;
  };
  std::map<std::string, Span> steps;
  std::vector<Usage> memory;
  json events;

  explicit Trace(const std::string& path) : events(json::parse(test::read_file(path))) {
    for (const json& event : events.at("traceEvents")) {
      const std::string name = event.at("name");
      if (event.at("ph") == "X" && name.starts_with("step ")) {
        const double begin = event.at("ts");
        steps[name] = {begin, begin + event.at("dur").get<double>()};
      } else if (event.at("ph") == "C") {
        memory.push_back({event.at("ts"), event.at("args")});
      }
    }
  }

  /// The memory in use at a time.
  [[nodiscard]] const Usage& at(double time) const {
    const Usage* last = &memory.front();
    for (const Usage& usage : memory) {
      if (usage.time <= time) last = &usage;
    }
    return *last;
  }
};

class TrainingTrace : public ::testing::Test {
 protected:
  TrainResult run(std::size_t steps) {
    options.steps = steps;
    options.trace = path;
    return test::train_quietly(options);
  }

  test::TemporaryFolder folder;
  std::string path = folder.path("trace.json");
  TrainOptions options = test::short_run();
};

TEST_F(TrainingTrace, GradientsGrowInBackwardAndAreFreedInEveryStep) {
  const double gradients = 4.0 * static_cast<double>(run(4).parameters);
  const Trace trace(path);
  ASSERT_EQ(trace.steps.size(), 4U);
  for (const auto& [name, span] : trace.steps) {
    double highest = 0.0;
    for (const Trace::Usage& usage : trace.memory) {
      if (usage.time >= span.begin && usage.time <= span.end) {
        highest = std::max(highest, usage.bytes.at("gradients"));
      }
    }
    EXPECT_EQ(highest, gradients) << name;
    EXPECT_EQ(trace.at(span.begin).bytes.at("gradients"), 0.0) << name;
    EXPECT_EQ(trace.at(span.end).bytes.at("gradients"), 0.0) << name;
    EXPECT_EQ(trace.at(span.end).bytes.at("activations"), 0.0) << name;
  }
}

TEST_F(TrainingTrace, NamesThePhasesOfAStepInTheirOrder) {
  run(1);
  const Trace trace(path);
  int phase_track = -1;
  std::vector<std::string> phases;
  for (const json& event : trace.events.at("traceEvents")) {
    if (event.at("ph") == "M" && event.at("args").at("name") == "phase") {
      phase_track = event.at("tid");
    }
  }
  for (const json& event : trace.events.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("tid") == phase_track) phases.push_back(event.at("name"));
  }
  const std::vector<std::string> micro_batch = {"forward, block 0",  "forward, block 1",
                                                "head and loss",     "backward, block 1",
                                                "backward, block 0", "embedding"};
  std::vector<std::string> expected = {"embedding"};
  expected.insert(expected.end(), micro_batch.begin(), micro_batch.end());
  expected.insert(expected.end(), micro_batch.begin(), micro_batch.end());
  expected.insert(expected.end(), {"optimizer", "gradients freed"});
  EXPECT_EQ(phases, expected);
}

}  // namespace
}  // namespace ultra::train
