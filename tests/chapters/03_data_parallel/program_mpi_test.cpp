// The executables of chapter 03 under mpirun: replicas and servers are processes.

#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

class ParameterServerUnderMpirun : public test::UnderMpirun {
 protected:
  ParameterServerUnderMpirun() : UnderMpirun("03_parameter_server", "4") {}
};

TEST_F(ParameterServerUnderMpirun, WhatServersLeaveAreReplicas) {
  expect_same_as_threads(4, "--servers 2 --priority priority", "2");
}

TEST_F(ParameterServerUnderMpirun, TheWrongNumberOfProcessesIsRefused) {
  expect_refused(2, "--dp 2", "--dp 2 and --servers 1: 3 ranks are needed, but mpirun started 2");
}

// Processes of one run of 03_data_parallel that were started differently, or read different texts.

using ultra::test::Words;

class RanksAgree : public test::ProgramTest {
 protected:
  RanksAgree() : ProgramTest("03_data_parallel") {}

  void SetUp() override {
    if (!test::has_mpirun()) GTEST_SKIP() << "there is no mpirun";
  }

  /// Two processes, the second one with flags of its own.
  static test::ProcessResult start(const std::string& first, const std::string& second) {
    const std::string program = test::program_path("03_data_parallel");
    Words words = test::joined({program}, test::flags(first));
    words = test::joined(words, {":", "-n", "1", program});
    return test::run_with_mpirun(1, test::joined(words, test::flags(second)),
                                 std::chrono::seconds(60));
  }

  void expect_refused(const std::string& first, const std::string& second,
                      const Words& parts) const {
    SCOPED_TRACE(second);
    const test::ProcessResult result =
        start("--metrics " + folder.path("metrics.jsonl") + " " + first,
              "--metrics " + folder.path("metrics.jsonl") + " " + second);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    test::expect_parts(result.err, parts);
    EXPECT_EQ(test::error_lines(result.err), 1) << result.err;
    EXPECT_EQ(result.out, "") << "before the first step";
  }
};

// They say so by messages, not by collectives of two kinds, which would wait for each other till the time-out.
TEST_F(RanksAgree, OnHowTheyCommunicate) {
  expect_refused("--collectives native", "--check-collectives off --timeout 999",
                 {"rank 1 has --check-collectives off and --collectives ours and --timeout 999",
                  "rank 0 has --check-collectives on and --collectives native and --timeout 60"});
}

TEST_F(RanksAgree, OnWhatTheyMeasure) {
  const std::string measure = "--op all_reduce --max-bytes 4KB --iterations ";
  const std::string program = test::program_path("03_data_parallel");
  const auto result = test::run_with_mpirun(
      1, test::words_of(program + " " + measure + "1 : -n 1 " + program + " " + measure + "2"),
      std::chrono::seconds(60));
  EXPECT_EQ(result.exit_code, 2) << result.out;
  test::expect_parts(result.err, {"rank 1 has --iterations 2, rank 0 has --iterations 1"});
}

TEST_F(RanksAgree, OnTheBytesOfTheTextWhereverItLies) {
  const std::string text = test::read_file(test::kText);
  const std::string here = "--data " + folder.write("here", text);
  const auto same = start(here, "--data " + folder.write("there", text));
  EXPECT_EQ(same.exit_code, 0) << same.err;
  expect_refused(here, "--data " + folder.write("other", "x" + text.substr(1)),
                 {"rank 1 reads", "other' with", "rank 0 reads", "here' with",
                  "Copy the same text to every machine"});
}

TEST_F(RanksAgree, ThatAFileIsMissingOnOneOfThem) {
  expect_refused("", "--data " + folder.path("nowhere"),
                 {"rank 1: data file", "nowhere' does not exist"});
}

}  // namespace
}  // namespace ultra::data_parallel
