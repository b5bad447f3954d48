#include "common/train/run/trainer.hpp"

#include <nlohmann/json.hpp>

#include "common/trace/trace_recorder.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::train {
namespace {

using nlohmann::json;

class Files : public ::testing::Test {
 protected:
  Files() {
    options.metrics = folder.path("metrics.jsonl");
    options.trace = folder.path("trace.json");
  }

  void finish(RunFiles& files) const {
    const std::vector<std::string> timelines = {trace::TraceRecorder(0).events(),
                                                trace::TraceRecorder(1).events()};
    TrainResult result;
    result.steps.push_back(
        {.step = 1, .loss = 2, .grad_norm = 3, .learning_rate = 4, .tokens_per_second = 5});
    files.finish(options, {}, result, timelines);
  }

  test::TemporaryFolder folder;
  TrainOptions options;
};

TEST_F(Files, AppearWhenTheRunHasFinished) {
  RunFiles files(options, 0);
  EXPECT_THAT(folder.names(), IsEmpty()) << "which a run that is killed would leave behind";
  finish(files);
  EXPECT_THAT(folder.names(), ElementsAre("metrics.jsonl", "trace.json"));
  EXPECT_THAT(test::read_file(options.metrics), HasSubstr(R"({"event":"step","step":1,)"));
  const json trace = json::parse(test::read_file(options.trace));
  EXPECT_EQ(trace.at("traceEvents").size(), 2U) << "both ranks";
}

TEST_F(Files, AreRankZerosOnly) {
  RunFiles files(options, 1);
  finish(files);
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST_F(Files, VanishWithARunThatDoesNotFinish) {
  { const RunFiles files(options, 0); }
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST_F(Files, ThatCannotBeMadeAreAnErrorAndLeaveNothing) {
  options.trace = folder.path("missing/trace.json");
  EXPECT_THAT(test::message_of<FileError>([&] { RunFiles(options, 0); }), HasSubstr("--trace"));
  EXPECT_THAT(folder.names(), IsEmpty());
  EXPECT_NO_THROW(RunFiles(options, 1));
}

}  // namespace
}  // namespace ultra::train
