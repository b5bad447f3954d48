// The executable 04_zero under mpirun: ranks are processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/chapters/02_collectives/program_run.hpp"

namespace ultra::zero {
namespace {

using nlohmann::json;
using ultra::test::ProcessResult;
using Words = std::vector<std::string>;

class ZeroUnderMpirun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ultra::test::has_mpirun()) GTEST_SKIP() << "there is no mpirun";
  }

  [[nodiscard]] ProcessResult start(int processes, const Words& flags) const {
    Words words = {ultra::test::program_path("04_zero")};
    const Words own = memory::test::flags(
        {{"--steps", "3"}, {"--global-batch", "5"}, {"--micro-batch", "1"}}, flags);
    words.insert(words.end(), own.begin(), own.end());
    if (processes == 0) return ultra::test::run_program("04_zero", own);
    return ultra::test::run_with_mpirun(processes, words, std::chrono::seconds(60));
  }

  [[nodiscard]] json losses(int processes, Words flags) const {
    const std::string path = folder.path("metrics.jsonl");
    flags.insert(flags.end(), {"--metrics", path});
    const ProcessResult result = start(processes, flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    if (result.exit_code != 0) return {};
    return collectives::test::events_of(path).back().at("losses");
  }

  void expect_refused(int processes, const Words& flags, const std::string& message) const {
    const ProcessResult result = start(processes, flags);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.err, ::testing::HasSubstr(message));
    EXPECT_EQ(collectives::test::error_lines(result.err), 1);
  }

  ultra::test::TemporaryFolder folder;
};

TEST_F(ZeroUnderMpirun, ProcessesComputeWhatThreadsCompute) {
  for (const Words& flags :
       {Words{"--zero", "1"}, Words{"--zero", "2"}, Words{"--zero", "3", "--prefetch", "2"}}) {
    Words with_dp = flags;
    with_dp.insert(with_dp.end(), {"--dp", "3"});
    EXPECT_EQ(losses(3, flags), losses(0, with_dp)) << "bitwise";
  }
}

TEST_F(ZeroUnderMpirun, NodesOfProcesses) {
  const Words flags = {"--zero", "3", "--hybrid-shard", "2"};
  Words with_dp = flags;
  with_dp.insert(with_dp.end(), {"--dp", "4"});
  EXPECT_EQ(losses(4, flags), losses(0, with_dp)) << "bitwise";
}

TEST_F(ZeroUnderMpirun, NodesThatAreNotWholeAreRefused) {
  expect_refused(3, {"--zero", "3", "--hybrid-shard", "2"}, "3 ranks are not whole nodes of 2");
}

TEST_F(ZeroUnderMpirun, ProcessesWithoutMemoryEndWithOneError) {
  expect_refused(3, {"--zero", "2", "--device-memory", "20kB"}, "out of device memory");
}

}  // namespace
}  // namespace ultra::zero
