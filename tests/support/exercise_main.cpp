// The main function of every exercise check (built by cmake/UltraExercise.cmake).
//
// Says which file it tests, runs the exercise's GoogleTest cases, and tells the outcome by its exit
// code, which tools/exercises reads:
//   0 passed   1 failed   3 not written yet   4 no test was run   5 every test was skipped
// A case counts as "not written" when NotWritten, thrown by a stub, is what made it fail; a run in
// which another case failed for another reason has failed, because that is what to look at.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace ultra::exercise {

extern const char* const kTestedFile;

namespace {

enum ExitCode : int { kPassed = 0, kFailed = 1, kNotWritten = 3, kNothingRun = 4, kSkipped = 5 };

// What NotWritten's message holds (common/base/errors.hpp).
constexpr std::string_view kNotWrittenMark = "not written: ";

/// Counts the cases whose failure is a stub's NotWritten, and those that failed otherwise.
class OutcomeListener : public testing::EmptyTestEventListener {
 public:
  [[nodiscard]] int not_written() const { return not_written_; }
  [[nodiscard]] int failed() const { return failed_; }

 private:
  void OnTestStart(const testing::TestInfo& /*info*/) override { case_not_written_ = false; }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed() &&
        std::string_view(result.message()).find(kNotWrittenMark) != std::string_view::npos) {
      case_not_written_ = true;
    }
  }

  void OnTestEnd(const testing::TestInfo& info) override {
    if (info.result()->Failed()) {
      ++(case_not_written_ ? not_written_ : failed_);
    }
  }

  bool case_not_written_ = false;
  int not_written_ = 0;
  int failed_ = 0;
};

ExitCode outcome(const testing::UnitTest& unit_test, const OutcomeListener& listener) {
  if (unit_test.test_to_run_count() == 0) {
    std::fprintf(stderr, "No test was run: a check that executes nothing proves nothing.\n");
    return kNothingRun;
  }
  if (listener.failed() > 0) {
    return kFailed;
  }
  if (listener.not_written() > 0) {
    return kNotWritten;
  }
  // A failure outside every case, in a suite's or the environment's set-up.
  if (!unit_test.Passed()) {
    return kFailed;
  }
  return unit_test.skipped_test_count() == unit_test.test_to_run_count() ? kSkipped : kPassed;
}

}  // namespace
}  // namespace ultra::exercise

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // What loads a mistaken copy of the file says so (tools/mistakes.py).
  const char* const change = std::getenv("ULTRA_TESTED_CHANGE");
  std::printf("Tested file: %s%s%s\n", ultra::exercise::kTestedFile, change ? " with " : "",
              change ? change : "");
  std::fflush(stdout);

  // GoogleTest owns the listener.
  auto* listener = new ultra::exercise::OutcomeListener;
  testing::UnitTest& unit_test = *testing::UnitTest::GetInstance();
  unit_test.listeners().Append(listener);
  // Its result knows passed and failed only; the listener knows more.
  [[maybe_unused]] const int failed = RUN_ALL_TESTS();
  return ultra::exercise::outcome(unit_test, *listener);
}
