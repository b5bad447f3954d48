#include "common/train/cli/program.hpp"

#include <new>

#include "common/base/interrupt.hpp"
#include "common/comm/comm_error.hpp"
#include "common/train/options/flags.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::train {
namespace {

using ::testing::EndsWith;

struct Outcome {
  int exit_code;
  std::string out;
  std::string err;
};

/// A program with one count flag, --steps.
Outcome run(const std::vector<const char*>& arguments, const std::function<void()>& body) {
  std::size_t steps = 0;
  const Program program = {
      .name = "the_program",
      .description = "What it does.",
      .add_flags = [&](CLI::App& app) { Flags(app, "Steps").add("--steps", steps, "how many"); },
      .body = body};
  std::vector<const char*> argv{"the_program"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  Outcome outcome{};
  ::testing::internal::CaptureStderr();
  outcome.out = test::printed_by([&] {
    outcome.exit_code = run_program(program, static_cast<int>(argv.size()), argv.data());
  });
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

template <class E>
Outcome run_throwing(const std::string& message) {
  return run({}, [&] { throw E(message); });
}

void expect_one_error_line(const Outcome& outcome, int exit_code) {
  EXPECT_EQ(outcome.exit_code, exit_code);
  EXPECT_THAT(outcome.err, AllOf(StartsWith("error: "), EndsWith("\n")));
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

TEST(RunProgram, RunsTheBodyAfterTheFlags) {
  bool ran = false;
  const Outcome outcome = run({"--steps", "3"}, [&] { ran = true; });
  EXPECT_TRUE(ran);
  EXPECT_EQ(outcome.exit_code, kExitOk);
  EXPECT_EQ(outcome.out + outcome.err, "");
}

TEST(RunProgram, ErrorsOfTheUserAreOneLineAndExitCode2) {
  for (const Outcome& outcome :
       {run_throwing<ConfigError>("--heads is odd"), run_throwing<FileError>("--heads is odd"),
        run_throwing<NumericError>("--heads is odd"), run_throwing<Error>("--heads is odd"),
        run_throwing<ShapeError>("--heads is odd"), run_throwing<OutOfMemory>("--heads is odd")}) {
    expect_one_error_line(outcome, 2);
    EXPECT_EQ(outcome.err, "error: --heads is odd\n");
  }
}

TEST(RunProgram, AMessageOfSeveralLinesBecomesOne) {
  const Outcome outcome = run_throwing<FileError>("file 'a\nb' is missing");
  expect_one_error_line(outcome, 2);
  EXPECT_EQ(outcome.err, "error: file 'a b' is missing\n");
}

TEST(RunProgram, UnknownFlagsNameTheHelpAndRunNothing) {
  bool ran = false;
  for (const std::vector<const char*>& arguments :
       {std::vector<const char*>{"--bogus"}, {"stray"}, {"--steps"}}) {
    const Outcome outcome = run(arguments, [&] { ran = true; });
    expect_one_error_line(outcome, 2);
    EXPECT_THAT(outcome.err, HasSubstr(arguments[0]));
    EXPECT_THAT(outcome.err, HasSubstr("the_program --help"));
  }
  EXPECT_FALSE(ran);
}

TEST(RunProgram, AStrayWordIsQuotedInPartAndNotObeyed) {
  const std::string word = "\x1b[31m" + std::string(1 << 20, 'x');
  const Outcome outcome = run({word.c_str()}, [] {});
  expect_one_error_line(outcome, 2);
  EXPECT_LT(outcome.err.size(), 5000U);
  EXPECT_THAT(outcome.err, Not(HasSubstr("\x1b")));
}

TEST(RunProgram, HelpIsNoError) {
  bool ran = false;
  const Outcome outcome = run({"--help"}, [&] { ran = true; });
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_FALSE(ran);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("What it does."), HasSubstr("--steps")));
  EXPECT_EQ(outcome.err, "");
}

TEST(RunProgram, AnExerciseThatIsNotWrittenHasItsOwnCode) {
  const Outcome outcome = run_throwing<NotWritten>("01.2 rms_norm_backward");
  expect_one_error_line(outcome, 3);
  EXPECT_THAT(outcome.err, HasSubstr("not written: 01.2 rms_norm_backward"));
}

TEST(RunProgram, RanksThatLostEachOtherAreNotTheUsersFault) {
  expect_one_error_line(run_throwing<CommError>("rank 2 is missing"), 1);
  expect_one_error_line(run_throwing<CommTimeout>("rank 2 is missing"), 1);
  expect_one_error_line(run_throwing<Deadlock>("all wait"), 1);
}

TEST(RunProgram, TheFailureOfAnotherRankHasTheCodeOfItsError) {
  const auto run_failing = [](ErrorKind kind) {
    return run({}, [&] { throw RankFailed(2, kind, "rank 2 failed: its message"); });
  };
  expect_one_error_line(run_failing(ErrorKind::kBadInput), 2);
  expect_one_error_line(run_failing(ErrorKind::kNotWritten), 3);
  expect_one_error_line(run_failing(ErrorKind::kInterrupted), 130);
  expect_one_error_line(run_failing(ErrorKind::kComm), 1);
  expect_one_error_line(run_failing(ErrorKind::kOther), 1);
  EXPECT_THAT(run_failing(ErrorKind::kOther).err, HasSubstr("rank 2 failed: its message"));
  EXPECT_THAT(run_failing(ErrorKind::kInterrupted).err, Not(HasSubstr("failed")))
      << "who pressed Ctrl-C knows why";
}

TEST(RunProgram, AnAnswerThatIsNotAsAssertedHasACodeOfItsOwn) {
  const Outcome outcome = run_throwing<NotAsAsserted>("seconds<14: it is 15");
  expect_one_error_line(outcome, 4);
  EXPECT_THAT(outcome.err, HasSubstr("seconds<14: it is 15"));
}

TEST(RunProgram, BeingStoppedHasTheShellsCode) {
  expect_one_error_line(run_throwing<Interrupted>("stopped before the end"), 130);
}

TEST(RunProgram, MemoryThatTheSystemHasNotIsTheUsersConcern) {
  const Outcome outcome = run({}, [] { throw std::bad_alloc(); });
  expect_one_error_line(outcome, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no more memory"));
}

TEST(RunProgram, OurBugsAreNotTheUsersFault) {
  expect_one_error_line(run_throwing<InternalError>("an invariant"), 1);
  const Outcome outcome = run_throwing<std::logic_error>("something else");
  expect_one_error_line(outcome, 1);
  EXPECT_THAT(outcome.err, HasSubstr("something else"));
}

}  // namespace
}  // namespace ultra::train
