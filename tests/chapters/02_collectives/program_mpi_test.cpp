// The executable 02_collectives under mpirun: ranks are processes, and a failure is still one line.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/chapters/02_collectives/program_run.hpp"

namespace ultra::collectives {
namespace {

using nlohmann::json;
using test::error_lines;
using test::events_of;
using test::ProcessResult;
using test::run;
using test::run_shell_with_mpi;
using test::run_with_mpi;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class UnderMpirun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ultra::test::has_mpirun()) GTEST_SKIP() << "there is no mpirun";
  }

  ultra::test::TemporaryFolder folder;
};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST_F(UnderMpirun, ProcessesComputeWhatThreadsCompute) {
  const auto losses = [&](bool mpi) {
    const std::string path = folder.path(mpi ? "mpi.jsonl" : "threads.jsonl");
    const std::map<std::string, std::string> changes = {{"--steps", "4"}, {"--metrics", path}};
    const ProcessResult result = mpi ? run_with_mpi(2, changes) : run(changes, {"--ranks", "2"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(count_of(result.out, "step     1/4"), 1U) << "rank 0 alone speaks";
    const json summary = events_of(path).back();
    EXPECT_EQ(summary.at("ranks").size(), 2U);
    EXPECT_EQ(summary.at("config").at("ranks"), 2);
    return summary.at("losses");
  };
  EXPECT_EQ(losses(true), losses(false)) << "bitwise: the same steps in the same order";
}

TEST_F(UnderMpirun, ATraceHoldsAllProcessesOnOneClock) {
  const std::string path = folder.path("trace.json");
  const ProcessResult result = run_with_mpi(2, {{"--steps", "3"}, {"--trace", path}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::map<int, double> first_step;
  const json trace = json::parse(ultra::test::read_file(path));
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("name") == "step 1") first_step[event.at("pid")] = event.at("ts");
  }
  ASSERT_EQ(first_step.size(), 2U);
  EXPECT_NEAR(first_step[0], first_step[1], 5e6) << "microseconds; the clocks of two starts differ "
                                                    "by more only if nobody aligned them";
}

TEST_F(UnderMpirun, RanksMustBeAsManyAsProcesses) {
  const ProcessResult result = run_with_mpi(
      2, {{"--global-batch", "12"}, {"--metrics", folder.path("m")}}, {"--ranks", "3"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(error_lines(result.err), 1) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("--ranks is 3"), HasSubstr("mpirun started 2")));
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST_F(UnderMpirun, HelpIsPrintedOnce) {
  const ProcessResult result = run_with_mpi(2, {}, {"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(count_of(result.out, "--global-batch"), 1U);
}

TEST_F(UnderMpirun, AnErrorOfOneRankIsOneLineThatNamesIt) {
  // Rank 1 alone is told to read a text that is not there.
  const ProcessResult result = run_shell_with_mpi(2, R"(if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then
              exec "$0" $(echo "$@" | sed 's#--data [^ ]*#--data nowhere.txt#')
            fi
            exec "$0" "$@")",
                                                  {{"--metrics", folder.path("m")}});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(error_lines(result.err), 1) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("rank 1: "), HasSubstr("nowhere.txt")));
  EXPECT_THAT(folder.names(), IsEmpty());
}

}  // namespace
}  // namespace ultra::collectives
