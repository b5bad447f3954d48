#include "common/train/report/progress.hpp"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <sstream>

#include "tests/support/toolbox.hpp"

namespace ultra::train {
namespace {

using ::testing::EndsWith;

/// What `show` writes to a file, which is no terminal.
std::vector<std::string> plain_lines(const std::function<void(std::FILE*)>& show) {
  std::FILE* file = std::tmpfile();
  show(file);
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> lines_of_a_run(std::size_t steps) {
  return plain_lines([&](std::FILE* out) {
    Progress progress(steps, out);
    for (std::size_t step = 1; step <= steps; ++step) progress.show(step, 2.5, 1000.0);
  });
}

TEST(ProgressWithoutATerminal, AValidationHasALine) {
  const std::vector<std::string> lines = plain_lines([](std::FILE* out) {
    Progress progress(3, out);
    progress.show(1, 2.5, 1000.0);
    progress.show_validation(1, 1.25);
  });
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1], "step     1/3  validation loss 1.2500");
}

TEST(ProgressWithoutATerminal, IsPlainLines) {
  const std::vector<std::string> lines = lines_of_a_run(3);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("step     1/3"), HasSubstr("loss 2.5000"),
                              HasSubstr("1000 tokens/s"), HasSubstr(" left")));
  for (const std::string& line : lines) {
    EXPECT_THAT(line, AllOf(Not(HasSubstr("\r")), Not(HasSubstr("\033")))) << "no control codes";
  }
}

TEST(ProgressWithoutATerminal, BeginsBehindTheStepsOfEarlierRuns) {
  const std::vector<std::string> lines = plain_lines([](std::FILE* out) {
    Progress progress(100, out, 57);
    for (std::size_t step = 58; step <= 100; ++step) progress.show(step, 2.5, 1000.0);
  });
  ASSERT_EQ(lines.size(), 6U) << "58, 60, 70, 80, 90, 100";
  EXPECT_THAT(lines.front(), HasSubstr("step    58/100"));
  EXPECT_THAT(lines.back(), AllOf(HasSubstr("step   100/100"), HasSubstr("0.00 s left")));
}

TEST(ProgressWithoutATerminal, ShowsTheFirstAndTheLastStepAndAFewBetween) {
  for (const std::size_t steps : {1U, 2U, 10U, 19U, 20U, 99U, 150U, 1000U, 12345U}) {
    const std::vector<std::string> lines = lines_of_a_run(steps);
    const std::string total = "/" + std::to_string(steps);
    EXPECT_THAT(lines.front(), HasSubstr(" 1" + total)) << steps;
    EXPECT_THAT(lines.back(), HasSubstr(std::to_string(steps) + total)) << steps;
    EXPECT_LE(lines.size(), 21U) << "a log of " << steps << " steps stays short";
    EXPECT_GE(lines.size(), std::min<std::size_t>(steps, 10)) << steps;
  }
}

/// A pseudo-terminal: what is written to its end `file` is read back as a screen would get it.
class Terminal {
 public:
  Terminal() : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_EQ(grantpt(master_), 0);
    EXPECT_EQ(unlockpt(master_), 0);
    const char* name = ptsname(master_);
    if (name != nullptr) file_ = fdopen(open(name, O_RDWR | O_NOCTTY), "w");
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() {
    if (file_ != nullptr) std::fclose(file_);
    close(master_);
  }

  [[nodiscard]] std::FILE* file() const { return file_; }

  /// Everything written since the last call.
  [[nodiscard]] std::string screen() const {
    std::fflush(file_);
    std::string text;
    std::array<char, 512> chunk{};
    pollfd waiting{.fd = master_, .events = POLLIN, .revents = 0};
    while (poll(&waiting, 1, 20) > 0 && (waiting.revents & POLLIN) != 0) {
      const ssize_t count = read(master_, chunk.data(), chunk.size());
      if (count <= 0) break;
      text.append(chunk.data(), static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  int master_;
  std::FILE* file_ = nullptr;
};

class ProgressOnATerminal : public ::testing::Test {
 protected:
  void SetUp() override {
    if (terminal.file() == nullptr) GTEST_SKIP() << "this system has no pseudo-terminals";
  }
  Terminal terminal;
};

TEST_F(ProgressOnATerminal, RewritesOneLineAtEveryStep) {
  Progress progress(8, terminal.file());
  for (std::size_t step = 1; step < 8; ++step) {
    progress.show(step, 3.25, 2048.0);
    const std::string screen = terminal.screen();
    EXPECT_THAT(screen, AllOf(HasSubstr("\r\033[K"), HasSubstr(std::to_string(step) + "/8"),
                              HasSubstr("loss 3.2500"), HasSubstr("2048 tokens/s"),
                              HasSubstr(" left"), Not(HasSubstr("\n"))));
    const auto filled = static_cast<std::size_t>(std::count(screen.begin(), screen.end(), '#'));
    EXPECT_EQ(filled, 3 * step) << "the bar grows with the steps";
  }
  progress.show(8, 3.0, 2048.0);
  EXPECT_THAT(terminal.screen(), AllOf(HasSubstr("8/8"), EndsWith("\n")));
}

TEST_F(ProgressOnATerminal, TheLossOfTheTokensAfterNextStandsBehindThatOfTheNext) {
  Progress progress(8, terminal.file());
  progress.show(1, 3.25, 2048.0, 4.5);
  EXPECT_THAT(terminal.screen(), HasSubstr("loss 3.2500  after next 4.5000  "));
}

TEST_F(ProgressOnATerminal, ARunThatStopsEarlyEndsItsLine) {
  {
    Progress progress(40, terminal.file());
    progress.show(7, 3.25, 2048.0);
    EXPECT_THAT(terminal.screen(), Not(HasSubstr("\n")));
  }
  EXPECT_THAT(terminal.screen(), EndsWith("\n")) << "the error message must start a line";
}

TEST_F(ProgressOnATerminal, ARunThatEndedWritesNothingMore) {
  {
    Progress progress(1, terminal.file());
    progress.show(1, 3.25, 2048.0);
    static_cast<void>(terminal.screen());
  }
  EXPECT_EQ(terminal.screen(), "");
}

}  // namespace
}  // namespace ultra::train
