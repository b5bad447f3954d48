// The executable 01_memory, started as a user starts it: what works.

#include "tests/support/programs/program.hpp"
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

}  // namespace
}  // namespace ultra::memory
