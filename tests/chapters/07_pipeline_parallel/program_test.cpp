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
using ultra::test::expect_near_losses;
using ultra::test::expect_parts;

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
                            "--pp 2 --schedule search --search-activations 2",
                            "--pp 2 --schedule search --stage-split 1,3",
                            "--pp 2 --dp 2 --zero 2 --schedule search"}) {
    SCOPED_TRACE(flags);
    expect_near_losses(losses_of(kFiveSteps + flags), expected, 1e-10);
  }
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

TEST_F(BadPipelineRun, FlagsThatDoNotGoTogether) {
  const std::string async = "--pp 2 --schedule pipedream-async ";
  refused(
      {{"--pp 2 --schedule 2f2b", {"--schedule", "'2f2b'", "1f1b", "zb-v"}},
       {"--layers 3 --tied-embeddings --schedule interleaved:3",
        {"a tied token table", "the one rank has both ends of the model, in 3 parts",
         "a schedule of one part per rank"}},
       {"--pp 2 --layers 4 --tied-embeddings --schedule zb-v",
        {"a tied token table does not go together with --schedule zb-v: the first rank has both "
         "ends of the model"}},
       {"--pp 2 --layers 4 --mtp --schedule dualpipe-v",
        {"--mtp does not go together with --schedule dualpipe-v", "both ends of the model"}},
       {async + "--clip 0 --tied-embeddings", {"a tied token table does not go together"}},
       {async + "--clip 0 --mtp", {"--mtp does not go together with --schedule pipedream-async"}},
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
  refuse("F0 F1 BW0 BW1\n", "", {"has lines for 1 stages, but --pp is 2"});
  refuse("F0 Q1\n", "", {"Q1"});
  const std::string updates = "F0 BW0 U0 F1 BW1 U1\nF0 BW0 U0 F1 BW1 U1\n";
  refuse(updates, "", {"--clip 1 does not go together"});
  refuse(updates, "--clip 0 --checkpoint " + folder.path("c"),
         {"checkpoints do not go together with --pp 2 --schedule-file '" + path + "'"});
  const std::string two_chunks = "F0 F1 F0.1 F1.1 BW0.1 U0.1 BW1.1 U1.1 BW0 U0 BW1 U1\n";
  refuse(two_chunks + two_chunks, "--clip 0 --layers 4",
         {"several parts on a rank does not go together", "one chunk per rank"});
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

// The weights of a training are what nobody can make again. The rule and its words: file_flags_test.cpp.
TEST_F(BadPipelineRun, AnAnswerThatWouldReplaceAFileOfACheckpoint) {
  const std::string saved = folder.path("saved");
  static_cast<void>(output_of("--steps 1 --checkpoint " + saved));
  const std::string step = saved + "/step-00000001";
  const std::string file = step + "/model.safetensors";
  const std::string weights = ultra::test::read_file(file);
  for (const std::string flags :
       {"--pp 2 --executed-gantt ", "--pp-table 4 --pp-table-schedules 1f1b --pp-table-list "}) {
    const auto result = run("--init " + step + " " + flags + file);
    EXPECT_EQ(result.exit_code, 2) << flags;
    expect_parts(result.err, {"would replace a file of the folder of --"});
  }
  EXPECT_TRUE(ultra::test::read_file(file) == weights);
}

TEST_F(BadPipelineRun, AChartThatCannotBeWritten) {
  const auto result = run("--pp 2 --executed-gantt " + folder.path("none/gantt.json"));
  EXPECT_EQ(result.exit_code, 2);
  expect_parts(result.err, {"--executed-gantt", "gantt.json"});
}

}  // namespace
}  // namespace ultra::pipeline_parallel
