// The executable 09_kernels, started as a user starts it.

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

#include "kernels/device/device_info.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/process.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ladders::program_test {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using ultra::test::ProcessResult;
using Words = std::vector<std::string>;

ProcessResult run(const Words& words) { return ultra::test::run_program("09_kernels", words); }

// A run that must end with one line of error.
void expect_refused(const Words& words, const Words& parts) {
  const ProcessResult result = run(words);
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, testing::StartsWith("error: "));
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << "one line: " << result.err;
  for (const std::string& part : parts) {
    EXPECT_THAT(result.err, HasSubstr(part));
  }
}

TEST(KernelsProgram, ShowsTheFirstLadderWithoutFlags) {
  const ProcessResult result = run({"--emulate"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("matmul_fp32"), HasSubstr("naive"), HasSubstr("right")));
}

TEST(KernelsProgram, WithoutSymbolsItSaysThatItCannotFindArrays) {
  const ultra::test::TemporaryFolder folder;
  const std::string program = folder.path("stripped");
  constexpr std::chrono::seconds kLimit{60};
  const Words strip = {"/usr/bin/env", "strip", "-o", program,
                       ultra::test::program_path("09_kernels")};
  ASSERT_EQ(ultra::test::run_command(strip, kLimit).exit_code, 0);
  const ProcessResult result =
      ultra::test::run_command({program, "--emulate", "--kernel", "matmul_fp32/tiled"}, kLimit);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out + result.err, HasSubstr("do not strip it"));
}

TEST(KernelsProgram, ListsWithoutRunning) {
  const ProcessResult result = run({"--list"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("kernels/ladders/matmul/matmul_fp32/01_naive.cu"),
                                HasSubstr("exercise 09.1")));
}

TEST(KernelsProgram, CountsALinePerAccess) {
  const ProcessResult result =
      run({"--kernel", "matmul_fp32/naive", "--size", "33x32x5", "--counters", "--seed", "9"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("rows 33 x columns 32 x depth 5"),
                                HasSubstr("kernels/ladders/matmul/matmul_fp32/01_naive.cu:"),
                                HasSubstr("global store"),
                                HasSubstr("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum")));
}

TEST(KernelsProgram, MetricsHaveALinePerRung) {
  const ultra::test::TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  const ProcessResult result = run({"--emulate", "--size", "32", "--metrics", path});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::istringstream lines(ultra::test::read_file(path));
  int rung = 0;
  for (std::string line; std::getline(lines, line);) {
    const json found = json::parse(line);
    EXPECT_EQ(found.at("rung"), ++rung);
    EXPECT_EQ(found.at("sizes").at("depth"), 32);
    EXPECT_EQ(found.at("least_bytes"), 3 * 4 * 32 * 32);
  }
  EXPECT_GE(rung, 2);
}

TEST(KernelsProgram, BadFlagsAreOneLine) {
  expect_refused({"--kernel", "gemm"}, {"no ladder 'gemm'"});
  expect_refused({"--emulate", "--gpu"}, {"--emulate and --gpu"});
  expect_refused({"--repetitions", "often"}, {"--repetitions"});
  expect_refused({"--list", "--metrics", "m"}, {"--metrics has no meaning with --list"});
  expect_refused({"--speed"}, {"--speed"});
}

TEST(KernelsProgram, AMetricsFileThatCannotBeWritten) {
  const ultra::test::TemporaryFolder folder;
  expect_refused({"--emulate", "--metrics", folder.path("no/metrics.jsonl")}, {"--metrics"});
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(KernelsProgram, AGpuThatIsNotThere) {
  if (!kernels::list_devices().empty()) {
    GTEST_SKIP() << "this machine has a GPU";
  }
  expect_refused({"--gpu"}, {"--gpu", "Hint: "});
}

}  // namespace ultra::ladders::program_test
