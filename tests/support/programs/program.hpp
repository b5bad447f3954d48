#pragma once
/// @file
/// Tests of a chapter's executable, started as a user starts it, alone or under mpirun.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/programs/process.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::test {

using Changes = std::map<std::string, std::string>;

/// @brief The flags of a run of some milliseconds, with other values where `changes` or `more` give
/// them, and all that these add.
inline Words flags(Changes changes, const Words& more = {}) {
  const Changes short_run = {{"--layers", "2"},   {"--hidden", "16"},      {"--heads", "4"},
                             {"--kv-heads", "2"}, {"--ffn", "24"},         {"--seq", "16"},
                             {"--steps", "1"},    {"--global-batch", "4"}, {"--micro-batch", "2"},
                             {"--data", kText}};
  Words others;
  for (std::size_t i = 0; i < more.size(); ++i) {
    const bool has_value = i + 1 < more.size();
    if (has_value && short_run.contains(more[i])) {
      changes[more[i]] = more[i + 1];
      ++i;
    } else {
      others.push_back(more[i]);
    }
  }
  changes.insert(short_run.begin(), short_run.end());
  Words words;
  for (const auto& [flag, value] : changes) words.insert(words.end(), {flag, value});
  return joined(words, others);
}

/// @brief The same of a line, such as "--steps 3 --dp 2".
inline Words flags(const std::string& line) { return flags(Changes{}, words_of(line)); }

inline void expect_success(const ProcessResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

/// @brief The events of a metrics file.
inline std::vector<nlohmann::json> events_of(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  return events;
}

/// @brief As many losses as expected, each no further from its own than that share of it.
inline void expect_near_losses(const nlohmann::json& losses, const nlohmann::json& expected,
                               double tolerance) {
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double loss = expected[i];
    EXPECT_NEAR(losses[i].get<double>(), loss, tolerance * loss) << "step " << i + 1;
  }
}

/// @brief How many lines of a text start with "error: ".
inline int error_lines(const std::string& text) {
  int count = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) count += line.starts_with("error: ") ? 1 : 0;
  return count;
}

/// @brief Runs of one executable, with a folder for what they write.
class ProgramTest : public ::testing::Test {
 protected:
  explicit ProgramTest(std::string program) : program_(std::move(program)) {}

  /// The executable with the flags of a short run, changed and extended.
  [[nodiscard]] ProcessResult run(const Changes& changes, const Words& more) const {
    return run_program(program_, flags(changes, more));
  }
  [[nodiscard]] ProcessResult run(const std::string& line = "") const {
    return run_program(program_, flags(line));
  }

  /// The executable with exactly these words.
  [[nodiscard]] ProcessResult run_words(const std::string& line) const {
    return run_program(program_, words_of(line));
  }

  /// What a short run prints when it succeeds.
  [[nodiscard]] std::string output_of(const std::string& line = "") const {
    const ProcessResult result = run(line);
    expect_success(result);
    return result.out;
  }

  /// The same with exactly these words.
  [[nodiscard]] std::string answer_to(const std::string& line) const {
    const ProcessResult result = run_words(line);
    expect_success(result);
    return result.out;
  }

  /// The summary of a run with metrics.
  [[nodiscard]] nlohmann::json summary_of(Changes changes, const Words& more = {}) const {
    const std::string path = folder.path("metrics.jsonl");
    changes["--metrics"] = path;
    expect_success(run(changes, more));
    return events_of(path).back();
  }
  [[nodiscard]] nlohmann::json summary_of(const std::string& line) const {
    return summary_of({}, words_of(line));
  }

  [[nodiscard]] nlohmann::json losses_of(const std::string& line) const {
    return summary_of(line).at("losses");
  }

  /// A run that must end with an error: one line, nothing that looks like a result, no file.
  ProcessResult failed(Changes changes, int exit_code, const Words& parts,
                       const Words& more) const {
    const auto give_file = [&](const char* flag, const char* name) {
      const bool given = std::find(more.begin(), more.end(), flag) != more.end();
      if (!given) changes.try_emplace(flag, folder.path(name));
    };
    give_file("--metrics", "metrics.jsonl");
    give_file("--trace", "trace.json");
    const ProcessResult result = run(changes, more);
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    EXPECT_THAT(result.err,
                ::testing::AllOf(::testing::StartsWith("error: "), ::testing::EndsWith("\n")));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << "one line: " << result.err;
    expect_parts(result.err, parts);
    EXPECT_THAT(folder.names(), ::testing::IsEmpty()) << "no partial output";
    return result;
  }
  ProcessResult failed(const std::string& line, int exit_code, const Words& parts) const {
    SCOPED_TRACE(line);
    return failed({}, exit_code, parts, words_of(line));
  }

  /// A run that must be refused before the first step.
  void refused(const Changes& changes, const Words& parts, const Words& more) const {
    EXPECT_EQ(failed(changes, 2, parts, more).out, "");
  }
  void refused(const std::vector<Refusal>& rows) const {
    for (const Refusal& row : rows) EXPECT_EQ(failed(row.line, 2, row.parts).out, "") << row.line;
  }

  /// How many ranks the flags of a row need, as the executable says.
  void expect_ranks(const std::vector<std::pair<std::string, std::string>>& rows) const {
    for (const auto& [line, ranks] : rows) {
      EXPECT_EQ(output_of(line + " --print-ranks"), ranks + "\n");
    }
  }

  TemporaryFolder folder;

 private:
  std::string program_;
};

/// @brief Short runs of one executable, as processes or as threads.
class UnderMpirun : public ::testing::Test {
 protected:
  /// @param changes  of the flags of a short run.
  UnderMpirun(std::string program, Changes changes)
      : program_(std::move(program)), changes_(std::move(changes)) {}
  /// @brief Five sequences, one at a time.
  /// @param steps  of each run.
  UnderMpirun(std::string program, const std::string& steps)
      : UnderMpirun(std::move(program),
                    Changes{{"--steps", steps}, {"--global-batch", "5"}, {"--micro-batch", "1"}}) {}

  void SetUp() override {
    if (!has_mpirun()) GTEST_SKIP() << "there is no mpirun";
  }

  /// A run of that many processes; 0 starts the executable itself, whose ranks are threads.
  /// @param shell  words before the executable's path, which start it.
  [[nodiscard]] ProcessResult start(int processes, const Words& more,
                                    const Words& shell = {}) const {
    const Words own = flags(changes_, more);
    if (processes == 0) return run_program(program_, own);
    return run_with_mpirun(processes, joined(joined(shell, {program_path(program_)}), own),
                           std::chrono::seconds(60));
  }

  /// The losses of a run that succeeds.
  [[nodiscard]] nlohmann::json losses(int processes, const Words& more) const {
    const std::string path = folder.path("metrics.jsonl");
    const ProcessResult result = start(processes, joined(more, {"--metrics", path}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    if (result.exit_code != 0) return {};
    return events_of(path).back().at("losses");
  }

  /// As many processes as threads give the same losses, bit for bit.
  void expect_same_as_threads(int processes, const std::string& line, const std::string& dp) const {
    const Words words = words_of(line);
    EXPECT_EQ(losses(processes, words), losses(0, joined(words, {"--dp", dp}))) << "bitwise";
  }

  /// A run that ends with one line of error.
  void expect_refused(int processes, const Words& more, const Words& parts,
                      const Words& shell) const {
    const ProcessResult result = start(processes, more, shell);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    expect_parts(result.err, parts);
    EXPECT_EQ(error_lines(result.err), 1) << result.err;
  }
  void expect_refused(int processes, const Words& more, const std::string& part) const {
    expect_refused(processes, more, {part}, {});
  }
  void expect_refused(int processes, const std::string& line, const std::string& part) const {
    expect_refused(processes, words_of(line), part);
  }

  TemporaryFolder folder;

 private:
  std::string program_;
  Changes changes_;
};

}  // namespace ultra::test
