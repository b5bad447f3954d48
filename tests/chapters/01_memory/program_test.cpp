// The executable 01_memory, started as a user starts it: what works.

#include "tests/support/programs/program.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <map>

#include "tests/support/toolbox.hpp"

namespace ultra::memory {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::ultra::test::events_of;
using ::ultra::test::expect_parts;

class Program : public ultra::test::ProgramTest {
 protected:
  Program() : ProgramTest("01_memory") {}
};

TEST_F(Program, TrainsTheDefaultModelOnTheWorkbooksText) {
  expect_parts(answer_to("--steps 2"), {"the workbook's own text", "step     1/2", "step     2/2",
                                        "Where the memory went"});
}

TEST_F(Program, ExplainsEveryByteInATableWithoutControlCodes) {
  const std::string out = output_of();
  EXPECT_THAT(out, ContainsRegex("\n +0 .* exact .* exact .* exact .* exact "));
  EXPECT_THAT(out, ContainsRegex("\n +01.1 .* exact .* exact .* exact .* exact "));
  EXPECT_THAT(out, AllOf(Not(HasSubstr("\033")), Not(HasSubstr("\r")), EndsWith("\n")));
}

TEST_F(Program, WritesMetricsAndTrace) {
  const std::string metrics = folder.path("metrics.jsonl");
  const std::string trace = folder.path("trace.json");
  static_cast<void>(output_of("--steps 3 --recompute full --recompute-every 2 --seed 9 --metrics " +
                              metrics + " --trace " + trace));
  EXPECT_THAT(folder.names(), ElementsAre("metrics.jsonl", "trace.json"));
  const std::vector<json> events = events_of(metrics);
  ASSERT_EQ(events.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i].at("event"), "step");
    EXPECT_EQ(events[i].at("step"), i + 1);
    EXPECT_EQ(events[3].at("losses")[i], events[i].at("loss"));
  }
  EXPECT_EQ(events[3].at("event"), "summary");
  EXPECT_EQ(events[3].at("config").at("seed"), 9);
  EXPECT_EQ(events[3].at("config").at("recompute"), "full");
  EXPECT_EQ(events[3].at("config").at("recompute_every"), 2);
  EXPECT_TRUE(json::parse(ultra::test::read_file(trace)).at("traceEvents").is_array());
}

TEST_F(Program, AllBytesAreTokens) {
  std::string binary;
  for (int i = 0; i < 1024; ++i) binary += static_cast<char>(i * 37);
  static_cast<void>(output_of("--data " + folder.write("binary", binary)));
}

TEST_F(Program, TheShortestTextIsOneSequenceAndItsNextByte) {
  static_cast<void>(output_of("--seq 16 --data " + folder.write("text", std::string(17, 'a'))));
}

TEST_F(Program, HelpIsOnStdoutAndNoError) {
  expect_parts(answer_to("--help"), {"--layers", "--micro-batch", "--data", "--metrics", "--trace",
                                     "--recompute", "--recompute-every", "--on"});
}

TEST_F(Program, SgdKeepsOneNumberOfEachWeight) {
  EXPECT_THAT(output_of("--optimizer sgd --steps 3"),
              ContainsRegex("\n +01.1 .* exact .* exact .* exact .* exact "));
  const auto optimizer_bytes = [&](const std::string& flags) {
    return summary_of(flags).at("ranks").at(0).at("peak_bytes").at("optimizer").get<double>();
  };
  EXPECT_EQ(optimizer_bytes("--optimizer sgd"), optimizer_bytes("--optimizer adamw") / 2);
}

TEST_F(Program, OneRankIsEnough) { expect_ranks({{"", "1"}}); }

// 6,738,415,616 parameters: the sum over the published checkpoint of Llama-2-7B.
TEST_F(Program, RecordsAKnownModelWithoutTrainingIt) {
  const std::string question =
      "--model llama-7b --seq 4096 --global-batch 1 --micro-batch 1 --on dgx-h100 ";
  expect_parts(answer_to(question), {"6,738,415,616 parameters (llama-7b)", "by 01.1"});
  for (const std::string recompute : {"none", "selective", "full"}) {
    const json report = json::parse(answer_to(question + "--on-json --recompute " + recompute));
    EXPECT_EQ(report.at("parameters"), 6'738'415'616U);
    const json& formula = report.at("formulas").at("01.1");
    EXPECT_EQ(formula.at("optimizer"), 12 * 6'738'415'616U) << "moments and master weights";
    for (const char* category : {"parameters", "gradients", "optimizer", "activations"}) {
      EXPECT_EQ(report.at("memory").at(0).at("highest_bytes").at(category), formula.at(category))
          << category << ", recompute " << recompute;
    }
  }
}

TEST_F(Program, RecomputationIsBitwiseEqual) {
  const json none = losses_of("--steps 4 --recompute none");
  ASSERT_EQ(none.size(), 4U);
  EXPECT_EQ(losses_of("--steps 4 --recompute selective"), none);
  EXPECT_EQ(losses_of("--steps 4 --recompute full"), none);
}

// The executable 01_memory and input that cannot work: exit code 2, one line that names what was
// wrong and what to do, and no file.

namespace fs = std::filesystem;
using ::ultra::test::flags;
using ::ultra::test::ProcessResult;
using ::ultra::test::run_program;

using Changes = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

class BadInput : public ::testing::Test {
 protected:
  /// Runs with files asked for; expects the refusal before the first step, with all `parts` in it.
  void expect_refused(const Changes& changes, const Words& parts, const Words& more = {}) const {
    const ProcessResult result = refused(changes, more);
    EXPECT_EQ(result.out, "") << "nothing may look like a run";
    for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
  }

  /// A question that is refused, as a whole command line.
  void expect_no_answer(const std::string& line, const Words& parts) const {
    const ProcessResult result = run_program("01_memory", ultra::test::words_of(line));
    EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_THAT(output.names(), IsEmpty());
  }

  /// Exit code 2, one line, no file; the rest is for the caller.
  ProcessResult refused(Changes changes, const Words& more = {}) const {
    changes.try_emplace("--metrics", output.path("metrics.jsonl"));
    changes.try_emplace("--trace", output.path("trace.json"));
    const ProcessResult result = run_program("01_memory", flags(changes, more));
    EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
    EXPECT_THAT(result.err, AllOf(StartsWith("error: "), EndsWith("\n")));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << "one line: " << result.err;
    EXPECT_THAT(output.names(), IsEmpty()) << "no partial output";
    return result;
  }

  ultra::test::TemporaryFolder folder;
  ultra::test::TemporaryFolder output;
};

TEST_F(BadInput, UnknownFlagsAndStrayWords) {
  expect_refused({}, {"--bogus", "01_memory --help"}, {"--bogus"});
  expect_refused({}, {"--bogus", "01_memory --help"}, {"--bogus=3"});
  expect_refused({}, {"stray", "01_memory --help"}, {"stray"});
  expect_refused({}, {"--warmup", "01_memory --help"}, {"--warmup"});
}

/// One of each kind: what else is refused is in the tests of the options.
TEST_F(BadInput, FlagsThatCannotWork) {
  expect_refused({{"--heads", "3"}}, {"--heads must divide --hidden", "16 % 3 = 1", "Choose"});
  expect_refused({{"--hidden", "12"}}, {"even head dimension", "12 / 4 = 3"});
  expect_refused({{"--micro-batch", "8"}}, {"4 % 8 = 4", "Choose a divisor of 4"});
  expect_refused({{"--layers", "0"}}, {"--layers is 0", "at least 1"});
  expect_refused({{"--seed", "-1"}}, {"--seed is -1", "whole number"});
  expect_refused({{"--steps", "18446744073709551616"}}, {"--steps", "18446744073709551616"});
  expect_refused({{"--data", ""}}, {"--data is empty", "Give it a value"});  // --data "$UNSET"
  expect_refused({{"--lr", "inf"}}, {"--lr is inf", "from 0 to"});
  expect_refused({{"--dtype", "bf16"}}, {"--dtype 'bf16'", "f32 or f64"});
  expect_refused({{"--recompute-every", "2"}}, {"--recompute-every 2", "--recompute full"});
  expect_refused({{"--optimizer", "adam"}}, {"--optimizer is 'adam'", "adamw or sgd or muon"});
}

TEST_F(BadInput, CountsThatNoMachineHolds) {
  for (const char* flag : {"--layers", "--ffn", "--seq"}) {
    expect_refused({{flag, "18446744073709551615"}}, {"100 TB", "Choose smaller", flag});
  }
  expect_refused({{"--hidden", "4611686018427387904"}}, {"100 TB", "Choose smaller", "--hidden"});
  expect_refused(
      {{"--global-batch", "9223372036854775808"}, {"--micro-batch", "9223372036854775808"}},
      {"100 TB", "--micro-batch"});
}

TEST_F(BadInput, ADeviceThatThereIsNoCodeFor) {
  expect_refused({{"--device", "cuda"}}, {"device cuda", "use --device cpu"});
}

TEST_F(BadInput, ModelsThatDoNotExist) {
  expect_no_answer("--model llama-9b --on dgx-h100", {"'llama-9b'", "llama-1b", "llama-405b"});
  expect_no_answer("--estimate llama-70b", {"--estimate is no longer there",
                                            "--model llama-70b --on dgx-h100", "--on-json"});
}

TEST_F(BadInput, FilesThatAnAnswerDoesNotWrite) {
  expect_no_answer("--on dgx-h100 --metrics " + output.path("file"),
                   {"--metrics has no meaning with --on", "stdout"});
}

TEST_F(BadInput, DataThatIsNoText) {
  const std::string missing = folder.path("missing.txt");
  expect_refused({{"--data", missing}}, {missing, "does not exist", "--data"});
  expect_refused({{"--data", folder.path()}}, {folder.path(), "is a folder", "--data"});
  const std::string empty = folder.write("empty", "");
  expect_refused({{"--data", empty}}, {empty, "is empty", "--data"});
  const std::string too_short = folder.write("short", std::string(16, 'x'));
  expect_refused({{"--data", too_short}},
                 {too_short, "has 16 tokens", "--seq + 1 = 17", "smaller --seq"});
  expect_refused({{"--data", "/dev/zero"}}, {"/dev/zero", "not a regular file"});
}

TEST_F(BadInput, DataThatMayNotBeRead) {
  const std::string secret = folder.write("secret", std::string(100, 'x'));
  fs::permissions(secret, fs::perms::none);
  expect_refused({{"--data", secret}}, {secret, "cannot be read", "Permission denied"});
  const std::string inside = folder.write("closed/text", std::string(100, 'x'));
  fs::permissions(folder.path("closed"), fs::perms::none);
  expect_refused({{"--data", inside}}, {inside, "Permission denied"});
}

TEST_F(BadInput, OutputThatCannotBeWritten) {
  fs::create_directory(folder.path("closed"));
  fs::permissions(folder.path("closed"), fs::perms::none);
  for (const std::string flag : {"--metrics", "--trace"}) {
    expect_refused({{flag, folder.path("missing/file")}},
                   {flag, folder.path("missing/file"), "cannot be written", "Give a path"});
    expect_refused({{flag, folder.path()}}, {flag, folder.path(), "is a folder", "path of a file"});
    expect_refused({{flag, folder.path("closed/file")}}, {flag, "Permission denied"});
    expect_refused({{flag, folder.path(std::string(300, 'a'))}}, {flag, "name too long"});
  }
  expect_refused({{"--metrics", output.path("same")}, {"--trace", output.path("same")}},
                 {"--metrics and --trace", "a file of its own"});
  fs::permissions(folder.path("closed"), fs::perms::owner_all);
  EXPECT_THAT(folder.names(), ElementsAre("closed")) << "nothing was left there either";
}

TEST_F(BadInput, OutputThatWouldReplaceTheText) {
  const std::string content(100, 'x');
  const std::string text = folder.write("my.txt", content);
  fs::create_symlink("my.txt", folder.path("link"));
  fs::create_hard_link(text, folder.path("hard"));
  for (const std::string flag : {"--metrics", "--trace"}) {
    for (const char* spelling : {"my.txt", "./my.txt", "link", "hard"}) {
      expect_refused({{"--data", text}, {flag, folder.path(spelling)}},
                     {"--data", flag, "Give each a file of its own"});
      EXPECT_EQ(ultra::test::read_file(text), content) << spelling;
    }
  }
}

TEST_F(BadInput, APipeThatNobodyReads) {
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const char* flag : {"--metrics", "--trace"}) {
    expect_refused({{flag, pipe}}, {flag, "is a pipe that nobody reads", "Start its reader first"});
  }
}

TEST_F(BadInput, AFullDisk) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  EXPECT_THAT(refused({{"--metrics", "/dev/full"}}).err,
              AllOf(HasSubstr("--metrics"), HasSubstr("'/dev/full'"), HasSubstr("disk full")));
  EXPECT_TRUE(fs::is_character_file("/dev/full")) << "a device must never be replaced";
}

TEST_F(BadInput, TrainingThatDiverges) {
  const ProcessResult result =
      refused({{"--lr", "1e10"}, {"--clip", "0"}, {"--warmup", "0"}, {"--steps", "20"}});
  EXPECT_THAT(result.err, AllOf(HasSubstr("the loss is nan at step 2"), HasSubstr("lower --lr"),
                                HasSubstr("--warmup"), HasSubstr("--clip")));
  EXPECT_THAT(result.out, Not(HasSubstr("Where the memory went"))) << "no table of half a run";
  EXPECT_THAT(refused({{"--lr", "1e30"}, {"--clip", "0"}, {"--steps", "20"}}).err,
              HasSubstr("at step 2"));
}

}  // namespace
}  // namespace ultra::memory
