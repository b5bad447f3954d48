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
using namespace test;

class Program : public ProgramTest {
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
  EXPECT_TRUE(json::parse(read_file(trace)).at("traceEvents").is_array());
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

class BadInput : public Program {
 protected:
  /// Refused before the first step, with all `parts` in its message.
  void expect_refused(const Changes& changes, const Words& parts, const Words& more = {}) const {
    refused(changes, parts, more);
  }

  /// A question that is refused, as a whole command line.
  void expect_no_answer(const std::string& line, const Words& parts) const {
    const ProcessResult result = run_words(line);
    EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
    EXPECT_EQ(result.out, "");
    expect_parts(result.err, parts);
    EXPECT_THAT(folder.names(), IsEmpty());
  }

  TemporaryFolder input;
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
  expect_no_answer("--on dgx-h100 --metrics " + folder.path("file"),
                   {"--metrics has no meaning with --on", "stdout"});
}

TEST_F(BadInput, DataThatIsNoText) {
  const std::string missing = input.path("missing.txt");
  expect_refused({{"--data", missing}}, {missing, "does not exist", "--data"});
  expect_refused({{"--data", input.path()}}, {input.path(), "is a folder", "--data"});
  const std::string empty = input.write("empty", "");
  expect_refused({{"--data", empty}}, {empty, "is empty", "--data"});
  const std::string too_short = input.write("short", std::string(16, 'x'));
  expect_refused({{"--data", too_short}},
                 {too_short, "has 16 tokens", "--seq + 1 = 17", "smaller --seq"});
  expect_refused({{"--data", "/dev/zero"}}, {"/dev/zero", "not a regular file"});
}

TEST_F(BadInput, DataThatMayNotBeRead) {
  const std::string secret = input.write("secret", std::string(100, 'x'));
  fs::permissions(secret, fs::perms::none);
  expect_refused({{"--data", secret}}, {secret, "cannot be read", "Permission denied"});
  const std::string inside = input.write("closed/text", std::string(100, 'x'));
  fs::permissions(input.path("closed"), fs::perms::none);
  expect_refused({{"--data", inside}}, {inside, "Permission denied"});
}

TEST_F(BadInput, OutputThatCannotBeWritten) {
  fs::create_directory(input.path("closed"));
  fs::permissions(input.path("closed"), fs::perms::none);
  for (const std::string flag : {"--metrics", "--trace"}) {
    expect_refused({{flag, input.path("missing/file")}},
                   {flag, input.path("missing/file"), "cannot be written", "Give a path"});
    expect_refused({{flag, input.path()}}, {flag, input.path(), "is a folder", "path of a file"});
    expect_refused({{flag, input.path("closed/file")}}, {flag, "Permission denied"});
    expect_refused({{flag, input.path(std::string(300, 'a'))}}, {flag, "name too long"});
  }
  expect_refused({{"--metrics", folder.path("same")}, {"--trace", folder.path("same")}},
                 {"--metrics and --trace", "a file of its own"});
  fs::permissions(input.path("closed"), fs::perms::owner_all);
  EXPECT_THAT(input.names(), ElementsAre("closed")) << "nothing was left there either";
}

TEST_F(BadInput, OutputThatWouldReplaceTheText) {
  const std::string content(100, 'x');
  const std::string text = input.write("my.txt", content);
  fs::create_symlink("my.txt", input.path("link"));
  fs::create_hard_link(text, input.path("hard"));
  for (const std::string flag : {"--metrics", "--trace"}) {
    for (const char* spelling : {"my.txt", "./my.txt", "link", "hard"}) {
      expect_refused({{"--data", text}, {flag, input.path(spelling)}},
                     {"--data", flag, "Give each a file of its own"});
      EXPECT_EQ(read_file(text), content) << spelling;
    }
  }
}

TEST_F(BadInput, APipeThatNobodyReads) {
  const std::string pipe = input.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const char* flag : {"--metrics", "--trace"}) {
    expect_refused({{flag, pipe}}, {flag, "is a pipe that nobody reads", "Start its reader first"});
  }
}

TEST_F(BadInput, AFullDisk) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  failed({{"--metrics", "/dev/full"}}, 2, {"--metrics", "'/dev/full'", "disk full"}, {});
  EXPECT_TRUE(fs::is_character_file("/dev/full")) << "a device must never be replaced";
}

TEST_F(BadInput, TrainingThatDiverges) {
  const ProcessResult result =
      failed({{"--lr", "1e10"}, {"--clip", "0"}, {"--warmup", "0"}, {"--steps", "20"}}, 2,
             {"the loss is nan at step 2", "lower --lr", "--warmup", "--clip"}, {});
  EXPECT_THAT(result.out, Not(HasSubstr("Where the memory went"))) << "no table of half a run";
  failed({{"--lr", "1e30"}, {"--clip", "0"}, {"--steps", "20"}}, 2, {"at step 2"}, {});
}

}  // namespace
}  // namespace ultra::memory
