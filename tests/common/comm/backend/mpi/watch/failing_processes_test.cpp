// Covers: common/comm/backend/mpi/watch/process_watch.hpp, common/comm/backend/mpi/watch/mpi_monitor.hpp,
// Covers: common/comm/backend/mpi/watch/notices.hpp, common/comm/backend/mpi/session.hpp
// Covers: common/comm/backend/mpi/watch/last_word.hpp
//
// Real processes that fail under mpirun: every other rank says which one and what it was doing, and
// nothing hangs.

#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

class FailingProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_mpirun()) GTEST_SKIP() << "there is no mpirun";
  }

  static std::string program() {
    std::string path = test::program_path("failing_ranks");
    return path.replace(path.rfind("bin/"), 4, "tests/");
  }

  static test::ProcessResult run(const std::string& how, int processes = 4) {
    return test::run_with_mpirun(processes, {program(), how}, std::chrono::seconds(60));
  }

  /// As one of the workbook's programs, in which one process speaks for all.
  static test::ProcessResult run_as_program(const std::string& how, int culprit,
                                            std::chrono::seconds limit = std::chrono::seconds(60)) {
    return test::run_with_mpirun(4, {program(), how, std::to_string(culprit), "as-program"}, limit);
  }

  static void expect_one_line(const test::ProcessResult& result) {
    EXPECT_EQ(test::error_lines(result.err), 1) << result.err;
  }

  /// The line that rank `rank` printed.
  static std::string said_by(const test::ProcessResult& result, int rank) {
    const std::size_t begin = result.err.find("<" + std::to_string(rank) + "> ");
    EXPECT_NE(begin, std::string::npos) << "rank " << rank << " said nothing:\n" << result.err;
    return begin == std::string::npos
               ? ""
               : result.err.substr(begin, result.err.find('\n', begin) - begin);
  }

  /// Rank `rank` printed a line, and it holds this.
  static void expect_said(const test::ProcessResult& result, int rank, const std::string& what) {
    EXPECT_THAT(said_by(result, rank), HasSubstr(what));
  }

  static void expect_others_waited_for_rank_1(const test::ProcessResult& result,
                                              const std::string& what) {
    EXPECT_NE(result.exit_code, 0);
    EXPECT_LT(result.seconds, 20);
    for (const int rank : {0, 2, 3}) {
      expect_said(result, rank, "rank 1 has failed: ");
      // The second, unless a busy machine has kept the rank in the first, from which the others are gone.
      EXPECT_THAT(said_by(result, rank),
                  testing::ContainsRegex(
                      fmt::format("Rank {} waited in all_reduce #[01] of 'world'", rank)));
      expect_said(result, rank, what);
    }
  }
};

TEST_F(FailingProcesses, NothingIsSaidWhenAllGoesWell) {
  const auto result = run("ok");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("rank")));
}

TEST_F(FailingProcesses, AThrownErrorIsQuotedByTheOthers) {
  const auto result = run("throws");
  expect_others_waited_for_rank_1(result, "the culprit's own words");
  expect_said(result, 1, "<1> the culprit's own words");
  EXPECT_EQ(result.exit_code, 2);
}

TEST_F(FailingProcesses, AKilledProcessIsNamed) {
  expect_others_waited_for_rank_1(run("killed"), "was killed or left without a word");
}

TEST_F(FailingProcesses, AProcessThatCrashesIsNamed) {
  const auto result = run("aborts");
  expect_others_waited_for_rank_1(result, "was killed or left without a word");
  // Its signal handler prints a stack, which hangs when the heap is broken.
  EXPECT_THAT(result.err, Not(HasSubstr("Process received signal")));
}

TEST_F(FailingProcesses, AProcessThatLeavesInTheMiddleIsNamed) {
  expect_others_waited_for_rank_1(run("exits"), "was killed or left without a word");
}

TEST_F(FailingProcesses, ARankThatNeverComesEndsInATimeout) {
  const auto result = run("hangs");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_LT(result.seconds, 30);
  EXPECT_THAT(result.err, AllOf(HasSubstr("has waited 2 s in all_reduce #1 of 'world'"),
                                HasSubstr("rank 1 has not arrived")));
  for (const int rank : {0, 2, 3}) {
    expect_said(result, rank, "rank 1 has not arrived");
    expect_said(result, rank,
                "rank 1 was 0 s on a core and 0 s in line for one: asleep, stopped, or waiting");
  }
}

TEST_F(FailingProcesses, ARankThatComputesForEverIsToldFromOneThatSleeps) {
  const auto result = run("spins");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("rank 1 has not arrived"),
                                ::testing::AnyOf(HasSubstr("in line for one: computing"),
                                                 HasSubstr("in line for one: starved"))));
}

TEST_F(FailingProcesses, ARankThatIsOutOfMemoryIsNamed) {
  const auto result = run_as_program("hungry", 2);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("rank 2 has failed: out of device memory"));
  expect_one_line(result);
}

/// mpirun says something of its own; from us there is one line.
TEST_F(FailingProcesses, TheDeathOfAnyRankIsOneLineOfOurs) {
  for (const int culprit : {0, 3}) {
    SCOPED_TRACE(culprit);
    const auto result = run_as_program("killed", culprit);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr(fmt::format("rank {} has failed: its process ", culprit)));
    expect_one_line(result);
  }
}

TEST_F(FailingProcesses, AWrongFlagOnOneProcessIsSaidByThatOne) {
  for (const int culprit : {0, 3}) {
    SCOPED_TRACE(culprit);
    const auto result = run_as_program("refused", culprit);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr(culprit == 0 ? "error: --steps is wrong"
                                                   : "error: [rank 3] --steps is wrong"));
    expect_one_line(result);
  }
}

/// All our processes end. mpirun itself may not: where a process has died in the middle of its
/// start, Debian 12's mpirun sometimes waits for ever for a lock of its own (pmix_rte_finalize).
TEST_F(FailingProcesses, ADeathBeforeOrWhileMpiStartsIsOneLineOfOurs) {
  for (const char* how : {"early", "starting"}) {
    for (const int culprit : {0, 2}) {
      SCOPED_TRACE(fmt::format("{} {}", how, culprit));
      const auto result = run_as_program(how, culprit, std::chrono::seconds(20));
      EXPECT_NE(result.exit_code, 0);
      EXPECT_EQ(result.running_children, 0);
      EXPECT_THAT(result.err,
                  ::testing::AnyOf(HasSubstr("was told to stop while MPI started"),
                                   HasSubstr(fmt::format("rank {} has failed: ", culprit))));
      expect_one_line(result);
    }
  }
}

TEST_F(FailingProcesses, AProcessThatDoesNotStartMpiIsNotWaitedForLongerThanTheTimeout) {
  const auto result = run_as_program("absent", 1);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_LT(result.seconds, 30);
  EXPECT_THAT(result.err, HasSubstr("has waited 5 s for MPI to start: not all of the 4 processes"));
  expect_one_line(result);
}

TEST_F(FailingProcesses, AProgramThatHasEndedIsMissedByTheNextRun) {
  const auto result = run("leaves");
  EXPECT_NE(result.exit_code, 0);
  for (const int rank : {0, 2, 3}) {
    expect_said(
        result, rank,
        fmt::format("rank 1 has failed: its program has ended (Rank {} waited in the beginning "
                    "of run_ranks.)",
                    rank));
  }
}

TEST_F(FailingProcesses, TooFewProcessesAreToldTheCommand) {
  const auto result = run("ok", 2);
  EXPECT_EQ(result.exit_code, 2);
  expect_said(result, 0, "4 ranks are asked for, but mpirun started 2 processes");
}

TEST_F(FailingProcesses, ALauncherThatThisMpiDoesNotKnowIsNamed) {
  const auto result =
      test::run_command({"/usr/bin/env", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=4",
                         "ASAN_OPTIONS=protect_shadow_gap=0:detect_leaks=0", program(), "ok"},
                        std::chrono::seconds(60));
  EXPECT_EQ(result.exit_code, 2);
  expect_said(result, 0, "MPI connects 1 process, not the 4 that the launcher says");
}

}  // namespace
}  // namespace ultra
