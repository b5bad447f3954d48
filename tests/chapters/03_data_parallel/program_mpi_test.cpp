// The executable 03_data_parallel under mpirun: replicas and servers are processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/chapters/02_collectives/program_run.hpp"

namespace ultra::data_parallel {
namespace {

using nlohmann::json;
using ultra::test::ProcessResult;
using Words = std::vector<std::string>;

class DataParallelUnderMpirun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ultra::test::has_mpirun()) GTEST_SKIP() << "there is no mpirun";
  }

  [[nodiscard]] ProcessResult start(int processes, const Words& flags) const {
    Words words = {ultra::test::program_path("03_data_parallel")};
    const Words own = memory::test::flags(
        {{"--steps", "4"}, {"--global-batch", "5"}, {"--micro-batch", "1"}}, flags);
    words.insert(words.end(), own.begin(), own.end());
    if (processes == 0) return ultra::test::run_program("03_data_parallel", own);
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

  ultra::test::TemporaryFolder folder;
};

TEST_F(DataParallelUnderMpirun, ProcessesComputeWhatThreadsCompute) {
  for (const Words& flags :
       {Words{}, Words{"--overlap", "per-parameter"}, Words{"--compress", "int8"}}) {
    Words with_dp = flags;
    with_dp.insert(with_dp.end(), {"--dp", "3"});
    EXPECT_EQ(losses(3, flags), losses(0, with_dp)) << "bitwise";
  }
}

TEST_F(DataParallelUnderMpirun, WhatServersLeaveAreReplicas) {
  const Words served = {"--sync", "parameter-server", "--servers", "2", "--priority", "priority"};
  Words with_dp = served;
  with_dp.insert(with_dp.end(), {"--dp", "2"});
  EXPECT_EQ(losses(4, served), losses(0, with_dp)) << "bitwise";
}

TEST_F(DataParallelUnderMpirun, TheWrongNumberOfProcessesIsRefused) {
  const ProcessResult result = start(3, {"--dp", "2"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, ::testing::HasSubstr("--dp 2: 2 ranks are needed, but mpirun started 3"));
  EXPECT_EQ(collectives::test::error_lines(result.err), 1);
}

}  // namespace
}  // namespace ultra::data_parallel
