// The executable 07_pipeline_parallel, started as a user starts it.

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::DoubleNear;
using ::testing::Pointwise;
using ultra::test::expect_near_losses;
using ultra::test::expect_parts;
using ultra::test::expect_success;

const std::string kModel =
    "--global-batch 8 --micro-batch 1 --dtype f64 --layers 4 --seq 12 --hidden 16 ";
const std::string kFiveSteps = kModel + "--steps 5 ";

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

class PipelineProgram : public ultra::test::ProgramTest {
 protected:
  PipelineProgram() : ProgramTest("07_pipeline_parallel") {}
};
using BadPipelineRun = PipelineProgram;

// Training ----------------------------------------------------------------------------------------

TEST_F(PipelineProgram, EveryLayoutHasTheLossesOfOneRank) {
  const json expected = losses_of(kFiveSteps);
  for (const char* flags : {"--pp 2",
                            "--pp 4 --schedule afab",
                            "--pp 3 --schedule naive",
                            "--schedule afab",
                            "--schedule interleaved:2",
                            "--pp 2 --schedule interleaved:2",
                            "--pp 4 --schedule zero-bubble-h1",
                            "--pp 2 --schedule zero-bubble-h2",
                            "--pp 2 --schedule zb-v",
                            "--pp 2 --schedule dualpipe-v",
                            "--pp 2 --micro-batches 8",
                            "--pp 2 --stage-split 1,3",
                            "--pp 2 --stage-split measured",
                            "--pp 2 --dp 2 --zero 1 --overlap none",
                            "--pp 2 --dp 2 --zero 2 --check-replicas 2",
                            "--pp 2 --dp 2 --zero 3 --recompute full --prefetch 2",
                            "--pp 2 --tp 2 --sp on --schedule zb-v",
                            "--pp 2 --cp 2 --dp 2 --zero 1",
                            "--pp 2 --cp 2 --tp 2 --sp on --recompute selective",
                            "--pp 2 --dp 2 --zero 3 --offload optimizer+params",
                            "--pp 2 --collectives native",
                            "--pp 2 --dp 2 --overlap per-parameter",
                            "--pp 2 --doc-length 0"}) {
    SCOPED_TRACE(flags);
    expect_near_losses(losses_of(kFiveSteps + flags), expected, 1e-10);
  }
}

TEST_F(PipelineProgram, AsynchronousUpdatesTrainToo) {
  const json losses = losses_of(
      "--layers 4 --global-batch 8 --micro-batch 1 --steps 12 --pp 4 --clip 0 "
      "--schedule pipedream-async --warmup 2");
  EXPECT_LT(losses.back().get<double>(), losses.front().get<double>() - 0.3);
}

TEST_F(PipelineProgram, AsynchronousUpdatesExchangeNothingWhateverTheOverlap) {
  const std::string async = kModel + "--steps 2 --pp 2 --clip 0 --schedule pipedream-async ";
  const json expected = losses_of(async);
  for (const char* overlap : {"none", "per-parameter"}) {
    SCOPED_TRACE(overlap);
    EXPECT_EQ(losses_of(async + "--overlap " + overlap), expected);
  }
}

TEST_F(PipelineProgram, TheSummaryHoldsItsFlagsAndWhatRanksCounted) {
  const json cut = summary_of("--pp 2 --schedule interleaved:2 --layers 4 --stage-split 1,1,1,1");
  EXPECT_EQ(cut.at("parameters"), summary_of("--layers 4").at("parameters"));
  const json& config = cut.at("config");
  EXPECT_EQ(config.at("pp"), 2);
  EXPECT_EQ(config.at("schedule"), "interleaved:2");
  EXPECT_EQ(config.at("stage_split"), "1,1,1,1");
  EXPECT_EQ(config.at("micro_batches"), 2);
  for (const json& rank : cut.at("ranks")) {
    EXPECT_GT(rank.at("counters").at("peak_live_activations"), 0);
  }
}

TEST_F(PipelineProgram, TheTraceShowsEachPassOnItsRank) {
  const std::string path = folder.path("trace.json");
  static_cast<void>(output_of("--pp 2 --schedule zero-bubble-h1 --trace " + path));
  const json trace = json::parse(ultra::test::read_file(path));
  std::set<std::string> names[2];
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") names[event.at("pid").get<int>()].insert(event.at("name"));
  }
  for (const auto& rank : names) {
    for (const char* name : {"F0", "F1", "B0", "B1", "W0", "W1"}) EXPECT_TRUE(rank.contains(name));
  }
}

TEST_F(PipelineProgram, AScheduleOfOnesOwnTrains) {
  const std::string model = kFiveSteps + "--global-batch 6 --micro-batch 2 ";
  const json expected = losses_of(model);
  const std::string path = folder.path("schedule.txt");
  write(path, "F0 F1 BW0 F2 B2 W2 BW1\nF0 BW0 F1 F2 BW2 BW1\n");
  expect_near_losses(losses_of(model + "--pp 2 --schedule-file " + path), expected, 1e-10);
  write(path,
        "placement v\n"
        "F0 F0.1 BW0.1 F1 F1.1 BW0 BW1.1 F2 F2.1 BW1 BW2.1 BW2\n"
        "F0 F0.1 BW0.1 BW0 F1 F1.1 BW1.1 BW1 F2 F2.1 BW2.1 BW2\n");
  expect_near_losses(losses_of(model + "--pp 2 --schedule-file " + path), expected, 1e-10);
}

TEST_F(PipelineProgram, AScheduleThatWasSearchedForTrains) {
  const json expected = losses_of(kFiveSteps);
  for (const char* flags : {"--pp 2 --schedule search", "--pp 2 --schedule search --dp 2 --zero 2",
                            "--pp 2 --schedule search --search-activations 2"}) {
    expect_near_losses(losses_of(kFiveSteps + flags), expected, 1e-10);
  }
}

// Two layers are no four parts: what is searched for has one part per rank.
TEST_F(PipelineProgram, ASearchTrainsAModelOfALayerForEachStage) {
  const std::string model =
      "--global-batch 8 --micro-batch 1 --dtype f64 --seq 12 --hidden 16 --steps 3 ";
  const json two = losses_of(model + "--layers 2");
  expect_near_losses(losses_of(model + "--layers 2 --pp 2 --schedule search"), two, 1e-10);
  const json four = losses_of(model + "--layers 4");
  expect_near_losses(losses_of(model + "--layers 4 --pp 2 --schedule search --stage-split 1,3"),
                     four, 1e-10);
}

// Memory that holds the activations of two micro-batches, but not of eight.
TEST_F(PipelineProgram, OneForwardOneBackwardTrainsWhereAllForwardDoesNot) {
  const std::string model =
      "--layers 4 --hidden 32 --seq 64 --global-batch 8 --micro-batch 1 --pp 2 "
      "--device-memory 1MB ";
  const auto result = run(model + "--schedule afab");
  EXPECT_EQ(result.exit_code, 2);
  expect_parts(result.err, {"out of device memory", "[stage 0 of 2, F", "forward pass of micro"});
  EXPECT_EQ(losses_of(model + "--schedule 1f1b").size(), 1U);
}

// Other answers -----------------------------------------------------------------------------------

TEST_F(PipelineProgram, RecordsEveryStageElsewhere) {
  const json report = json::parse(
      answer_to("--model llama-1b --seq 256 --pp 4 --global-batch 8 --micro-batch 1 --schedule "
                "1f1b --on dgx-h100 --on-json"));
  ASSERT_EQ(report.at("memory").size(), 4U);
  std::size_t before = std::numeric_limits<std::size_t>::max();
  for (const std::size_t stage : {0U, 1U, 2U}) {
    EXPECT_EQ(report.at("memory").at(stage).at("place"), fmt::format("pp {}", stage));
    const std::size_t kept = report.at("memory").at(stage).at("highest_bytes").at("activations");
    EXPECT_LT(kept, before) << "a stage keeps p - s micro-batches";
    before = kept;
  }
}

TEST_F(PipelineProgram, PrintsHowManyRanksItNeeds) {
  expect_ranks({{"--dp 2 --pp 2", "4"}, {"--pp 2 --cp 2 --tp 2", "8"}, {"--schedule afab", "1"}});
}

// Bad input ---------------------------------------------------------------------------------------

TEST_F(BadPipelineRun, LayersAndMicroBatchesThatDoNotFit) {
  refused({{"--pp 4", {"--layers 2 are fewer than the 4 parts"}},
           {"--pp 2 --stage-split 2,1", {"--stage-split 2,1 has 3 layers", "--layers 2"}},
           {"--pp 2 --stage-split 2", {"has 1 numbers", "2 parts"}},
           {"--pp 2 --micro-batches 5",
            {"--micro-batch 2 cuts the 4 sequences", "--micro-batches is 5"}},
           {"--pp 2 --global-batch 10 --micro-batch 1 --micro-batches 2",
            {"--micro-batch 1 cuts the 10 sequences", "--micro-batches is 2"}},
           {"--pp 2 --layers 4 --schedule interleaved:2 --global-batch 6",
            {"interleaved", "3", "multiple"}}});
}

TEST_F(BadPipelineRun, RanksThatDoNotFit) {
  refused({{"--ranks 3 --pp 2", {"3 ranks are no whole replicas of 2 ranks each (--pp 2)"}},
           {"--dp 2 --pp 2 --ranks 3", {"--dp 2 and --pp 2: 4 ranks", "--ranks is 3"}}});
}

TEST_F(BadPipelineRun, FlagsThatDoNotGoTogether) {
  const std::string async = "--pp 2 --schedule pipedream-async ";
  refused({{"--pp 2 --schedule 2f2b", {"--schedule", "'2f2b'", "1f1b", "zb-v"}},
           {"--layers 3 --tied-embeddings --schedule interleaved:3",
            {"a tied token table", "the one rank has both ends of the model, in 3 parts",
             "a schedule of one part per rank"}},
           {"--stage-split 1,1", {"--stage-split has no meaning without --pp"}},
           {async, {"--clip 1", "pipedream-async", "--clip 0"}},
           {async + "--clip 0 --dp 2", {"--dp 2 does not go together", "pipedream-async"}},
           {async + "--clip 0 --tp 2", {"--tp 2 does not go together"}},
           {async + "--clip 0 --cp 2", {"--cp 2 does not go together"}},
           {async + "--clip 0 --zero 1", {"--zero 1 does not go together"}},
           {async + "--clip 0 --compress int8", {"--compress does not go together"}},
           {async + "--clip 0 --checkpoint " + folder.path("c"),
            {"checkpoints do not go together with --pp 2 --schedule pipedream-async"}}});
}

TEST_F(BadPipelineRun, SchedulesOfOnesOwnThatCannotRun) {
  const std::string path = folder.path("schedule.txt");
  const auto refuse = [&](const std::string& text, const std::string& more,
                          const ultra::test::Words& parts) {
    write(path, text);
    const auto result = run("--pp 2 --schedule-file " + path + " " + more);
    EXPECT_EQ(result.exit_code, 2);
    expect_parts(result.err, parts);
  };
  refuse("F0 BW0\nF0 BW0\n", "", {"has 1 micro-batches, but a replica has 2"});
  refuse("F0 BW0 F1 BW1\nF1 F0 BW0 BW1\n", "", {"stage"});
  refuse("F0 F1 BW0\nF0 BW0 F1 BW1\n", "", {"stage 0", "micro-batch 1"});
  refuse("F0 F1 BW0 BW1\n", "", {"has lines for 1 stages, but --pp is 2"});
  refuse("F0 Q1\n", "", {"Q1"});
  const std::string updates = "F0 BW0 U0 F1 BW1 U1\nF0 BW0 U0 F1 BW1 U1\n";
  refuse(updates, "", {"--clip 1 does not go together"});
  refuse(updates, "--clip 0 --checkpoint " + folder.path("c"),
         {"checkpoints do not go together with --pp 2 --schedule-file '" + path + "'"});
  const std::string two_chunks = "F0 F1 F0.1 F1.1 BW0.1 U0.1 BW1.1 U1.1 BW0 U0 BW1 U1\n";
  refuse(two_chunks + two_chunks, "--clip 0 --layers 4",
         {"several parts on a rank does not go together", "one chunk per rank"});
  refuse("F0 B0 W0 U0\nF0 BW0 U0\n", "--clip 0", {"stage 0", "U0", "so write BW0 U0"});
  refuse("F0 BW0\nF0 BW0\n", "--schedule afab", {"--schedule and --schedule-file"});
  const auto missing = run("--pp 2 --schedule-file " + folder.path("none"));
  EXPECT_EQ(missing.exit_code, 2);
  expect_parts(missing.err, {"--schedule-file", "cannot be read"});
  const auto endless = run("--pp 2 --schedule-file /dev/zero");
  EXPECT_EQ(endless.exit_code, 2);
  expect_parts(endless.err, {"--schedule-file", "it is a device"});
  write(path, std::string((1U << 26U) + 1, '#'));
  const auto large = run("--pp 2 --schedule-file " + path);
  EXPECT_EQ(large.exit_code, 2);
  expect_parts(large.err, {"--schedule-file", "has more than 67108864 bytes"});
}

// Nobody writes to it: to open it would be to wait for ever.
TEST_F(BadPipelineRun, APipeInPlaceOfAFile) {
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const char* flag : {"--pp 2 --schedule-file ", "--pp-table 2 --pp-table-file ",
                           "--pp-table 2 --pp-table-costs "}) {
    const auto result = run(flag + pipe);
    EXPECT_EQ(result.exit_code, 2);
    const std::string named = flag;
    expect_parts(result.err, {named.substr(named.rfind("--")) + "'", "it is a pipe"});
  }
}

TEST_F(BadPipelineRun, ATableThatWouldReplaceWhatItReadsOrWrites) {
  const std::string file = folder.write("mine", "F0 BW0\nF0 BW0\n");
  fs::create_symlink(file, folder.path("link"));
  const std::string same = folder.path("./mine");
  const std::string table = "--pp-table 2 --pp-table-schedules 1f1b ";
  for (const std::string& line :
       {"--pp-table-costs " + file + " --pp-table-gantt " + same,
        "--pp-table-costs " + folder.path("link") + " --pp-table-trace " + file,
        "--pp-table-file " + file + " --pp-table-list " + folder.path("link"),
        "--pp-table-gantt " + folder.path("q") + " --pp-table-trace " + folder.path("./q")}) {
    const auto result = run_words(table + line);
    EXPECT_EQ(result.exit_code, 2) << line;
    expect_parts(result.err, {"are one file. Give each a file of its own"});
  }
  EXPECT_EQ(ultra::test::read_file(file), "F0 BW0\nF0 BW0\n");
  EXPECT_FALSE(fs::exists(folder.path("q")));
  const std::string list = folder.path("list");
  static_cast<void>(
      answer_to(table + "--pp-table-list " + list + " --pp-table-trace " + folder.path("trace")));
  static_cast<void>(answer_to("--pp-table 2 --pp-table-file " + list));
}

// The weights and the state of a training are what nobody can make again.
TEST_F(BadPipelineRun, AnOutputThatWouldReplaceAFileOfACheckpoint) {
  const std::string saved = folder.path("saved");
  expect_success(run("--steps 2 --checkpoint " + saved));
  const std::string step = saved + "/step-00000002";
  const std::string weights = ultra::test::read_file(step + "/model.safetensors");
  const std::string config = ultra::test::read_file(step + "/config.json");
  for (const std::string& line :
       {"--resume " + saved + " --metrics " + step + "/model.safetensors",
        "--resume " + saved + " --trace " + step + "/../step-00000002/config.json",
        "--resume " + saved + " --checkpoint " + saved + " --metrics " + step + "/training.json",
        "--init " + step + " --pp 2 --executed-gantt " + step + "/model.safetensors",
        "--init " + step +
            " --pp-table 4 --pp-table-schedules 1f1b "
            "--pp-table-list " +
            step + "/config.json"}) {
    const auto result = run("--steps 3 " + line);
    EXPECT_EQ(result.exit_code, 2) << line;
    expect_parts(result.err,
                 {"would replace a file of the folder of --", "Give the path of a new file"});
  }
  EXPECT_TRUE(ultra::test::read_file(step + "/model.safetensors") == weights);
  EXPECT_EQ(ultra::test::read_file(step + "/config.json"), config);
  expect_success(run("--steps 3 --resume " + saved + " --checkpoint " + saved + " --metrics " +
                     saved + "/metrics.jsonl"));
  EXPECT_EQ(ultra::test::events_of(saved + "/metrics.jsonl").back().at("losses").size(), 3U);
}

TEST_F(BadPipelineRun, RecordsOfWhatCouldNotTrain) {
  const auto expect_refused = [&](const std::string& line, const std::string& part) {
    const ultra::test::ProcessResult result = run_words(line);
    EXPECT_EQ(result.exit_code, 2) << line;
    EXPECT_THAT(result.err, HasSubstr(part));
  };
  expect_refused("--model llama-8b --pp 64 --on dgx-h100",
                 "--layers 32 are fewer than the 64 parts");
  expect_refused("--model llama-8b --pp 2 --stage-split measured --on dgx-h100", "--stage-split");
}

TEST_F(BadPipelineRun, AChartThatCannotBeWritten) {
  const auto result = run("--pp 2 --executed-gantt " + folder.path("none/gantt.json"));
  EXPECT_EQ(result.exit_code, 2);
  expect_parts(result.err, {"--executed-gantt", "gantt.json"});
}

}  // namespace
}  // namespace ultra::pipeline_parallel
