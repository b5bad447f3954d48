#pragma once
/// @file
/// Tests of a chapter's executable under mpirun, where ranks are processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "tests/chapters/02_collectives/program_run.hpp"

namespace ultra::data_parallel::test {

using Words = std::vector<std::string>;

/// @brief Short runs of one executable, as processes or as threads.
class UnderMpirun : public ::testing::Test {
 protected:
  /// @param steps  of each run.
  UnderMpirun(std::string program, std::string steps)
      : program_(std::move(program)), steps_(std::move(steps)) {}

  void SetUp() override {
    if (!ultra::test::has_mpirun()) GTEST_SKIP() << "there is no mpirun";
  }

  /// A run of that many processes; 0 starts the executable itself, whose ranks are threads.
  [[nodiscard]] ultra::test::ProcessResult start(int processes, const Words& flags) const {
    const Words own = memory::test::flags(
        {{"--steps", steps_}, {"--global-batch", "5"}, {"--micro-batch", "1"}}, flags);
    if (processes == 0) return ultra::test::run_program(program_, own);
    Words words = {ultra::test::program_path(program_)};
    words.insert(words.end(), own.begin(), own.end());
    return ultra::test::run_with_mpirun(processes, words, std::chrono::seconds(60));
  }

  /// The losses of a run that succeeds.
  [[nodiscard]] nlohmann::json losses(int processes, Words flags) const {
    const std::string path = folder.path("metrics.jsonl");
    flags.insert(flags.end(), {"--metrics", path});
    const ultra::test::ProcessResult result = start(processes, flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    if (result.exit_code != 0) return {};
    return collectives::test::events_of(path).back().at("losses");
  }

  /// As many processes as threads give the same losses, bit for bit.
  void expect_same_as_threads(int processes, const Words& flags, const std::string& dp) const {
    Words with_dp = flags;
    with_dp.insert(with_dp.end(), {"--dp", dp});
    EXPECT_EQ(losses(processes, flags), losses(0, with_dp)) << "bitwise";
  }

  /// A run that ends with one line of error.
  void expect_refused(int processes, const Words& flags, const std::string& message) const {
    const ultra::test::ProcessResult result = start(processes, flags);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.err, ::testing::HasSubstr(message));
    EXPECT_EQ(collectives::test::error_lines(result.err), 1);
  }

  ultra::test::TemporaryFolder folder;

 private:
  std::string program_;
  std::string steps_;
};

}  // namespace ultra::data_parallel::test
