// The executable 02_collectives under mpirun: ranks are processes, and a failure is still one line.

#include <map>

#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::collectives {
namespace {

using nlohmann::json;
using ultra::test::events_of;
using ultra::test::ProcessResult;
using ultra::test::words_of;

class UnderMpirun : public ultra::test::UnderMpirun {
 protected:
  UnderMpirun() : ultra::test::UnderMpirun("02_collectives", ultra::test::Changes{}) {}
};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST_F(UnderMpirun, ProcessesComputeWhatThreadsCompute) {
  const std::string path = folder.path("metrics.jsonl");
  const auto losses = [&](int processes, const std::string& more) {
    const ProcessResult result = start(processes, words_of("--steps 4 --metrics " + path + more));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(count_of(result.out, "step     1/4"), 1U) << "rank 0 alone speaks";
    const json summary = events_of(path).back();
    EXPECT_EQ(summary.at("ranks").size(), 2U);
    EXPECT_EQ(summary.at("config").at("ranks"), 2);
    return summary.at("losses");
  };
  EXPECT_EQ(losses(2, ""), losses(0, " --ranks 2")) << "bitwise: the same steps in the same order";
}

TEST_F(UnderMpirun, ATraceHoldsAllProcessesOnOneClock) {
  const std::string path = folder.path("trace.json");
  const ProcessResult result = start(2, {"--steps", "3", "--trace", path});
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
  expect_refused(2, {"--global-batch", "12", "--ranks", "3", "--metrics", folder.path("m")},
                 {"--ranks is 3", "mpirun started 2"}, {});
  EXPECT_THAT(folder.names(), ::testing::IsEmpty());
}

TEST_F(UnderMpirun, HelpIsPrintedOnce) {
  const ProcessResult result = start(2, {"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(count_of(result.out, "--global-batch"), 1U);
}

TEST_F(UnderMpirun, AnErrorOfOneRankIsOneLineThatNamesIt) {
  // Rank 1 alone is told to read a text that is not there.
  expect_refused(2, {"--metrics", folder.path("m")}, {"rank 1: ", "nowhere.txt"},
                 {"/bin/sh", "-c", R"(if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then
                    exec "$0" $(echo "$@" | sed 's#--data [^ ]*#--data nowhere.txt#')
                  fi
                  exec "$0" "$@")"});
  EXPECT_THAT(folder.names(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace ultra::collectives
