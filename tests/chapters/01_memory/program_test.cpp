// The executable 01_memory, started as a user starts it: what works.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/chapters/01_memory/program_flags.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ultra::memory {
namespace {

using nlohmann::json;
using test::flags;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::ultra::test::ProcessResult;
using ::ultra::test::run_program;

std::vector<json> events_of(const std::string& path) {
  std::istringstream lines(ultra::test::read_file(path));
  std::vector<json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(json::parse(line));
  return events;
}

void expect_success(const ProcessResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

TEST(Program, TrainsTheDefaultModelOnTheWorkbooksText) {
  const ProcessResult result = run_program("01_memory", {"--steps", "2"});
  expect_success(result);
  EXPECT_THAT(result.out, AllOf(HasSubstr("the workbook's own text"), HasSubstr("step     1/2"),
                                HasSubstr("step     2/2"), HasSubstr("Where the memory went")));
}

TEST(Program, ExplainsEveryByteInATableWithoutControlCodes) {
  const ProcessResult result = run_program("01_memory", flags());
  expect_success(result);
  for (const char* category :
       {"parameters", "gradients", "optimizer", "activations", "other", "predicted", "measured"}) {
    EXPECT_THAT(result.out, HasSubstr(category));
  }
  EXPECT_THAT(result.out, AllOf(HasSubstr("exact"), HasSubstr("total")));
  EXPECT_THAT(result.out, AllOf(Not(HasSubstr("\033")), Not(HasSubstr("\r")), EndsWith("\n")));
}

TEST(Program, WritesMetricsAndTrace) {
  const ultra::test::TemporaryFolder folder;
  const std::string metrics = folder.path("metrics.jsonl");
  const std::string trace = folder.path("trace.json");
  expect_success(run_program("01_memory", flags({{"--steps", "3"},
                                                 {"--metrics", metrics},
                                                 {"--trace", trace},
                                                 {"--recompute", "full"},
                                                 {"--recompute-every", "2"},
                                                 {"--seed", "9"}})));
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

TEST(Program, AllBytesAreTokens) {
  const ultra::test::TemporaryFolder folder;
  std::string binary;
  for (int i = 0; i < 1024; ++i) binary += static_cast<char>(i * 37);
  expect_success(run_program("01_memory", flags({{"--data", folder.write("binary", binary)}})));
}

TEST(Program, TheShortestTextIsOneSequenceAndItsNextByte) {
  const ultra::test::TemporaryFolder folder;
  expect_success(run_program(
      "01_memory",
      flags({{"--seq", "16"}, {"--data", folder.write("text", std::string(17, 'a'))}})));
}

TEST(Program, HelpIsOnStdoutAndNoError) {
  const ProcessResult result = run_program("01_memory", {"--help"});
  expect_success(result);
  for (const char* flag : {"--layers", "--micro-batch", "--data", "--metrics", "--trace",
                           "--recompute", "--recompute-every", "--estimate", "--precision"}) {
    EXPECT_THAT(result.out, HasSubstr(flag));
  }
}

TEST(Program, OneRankIsEnough) {
  const ProcessResult result = run_program("01_memory", flags({}, {"--print-ranks"}));
  expect_success(result);
  EXPECT_EQ(result.out, "1\n");
}

// 6,738,415,616 parameters: the sum over the published checkpoint of Llama-2-7B.
TEST(Program, EstimatesAKnownModelWithoutTrainingIt) {
  const std::vector<std::string> question = {"--estimate", "llama-7b",      "--seq",
                                             "4096",       "--micro-batch", "1"};
  const ProcessResult table = run_program("01_memory", question);
  expect_success(table);
  EXPECT_THAT(table.out, AllOf(HasSubstr("6,738,415,616"), Not(HasSubstr("loss"))));

  std::vector<std::string> as_json = question;
  as_json.emplace_back("--json");
  const ProcessResult result = run_program("01_memory", as_json);
  expect_success(result);
  const json estimate = json::parse(result.out);
  EXPECT_EQ(estimate.at("parameters"), 6'738'415'616U);
  EXPECT_EQ(estimate.at("bytes").at("optimizer"), 12 * 6'738'415'616U);
}

TEST(Program, RecomputationIsBitwiseEqual) {
  const ultra::test::TemporaryFolder folder;
  const auto losses = [&](const char* mode) {
    const std::string path = folder.path(fmt::format("{}.jsonl", mode));
    expect_success(run_program(
        "01_memory", flags({{"--steps", "4"}, {"--recompute", mode}, {"--metrics", path}})));
    return events_of(path).back().at("losses");
  };
  const json none = losses("none");
  ASSERT_EQ(none.size(), 4U);
  EXPECT_EQ(losses("selective"), none);
  EXPECT_EQ(losses("full"), none);
}

}  // namespace
}  // namespace ultra::memory
