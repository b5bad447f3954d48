#pragma once
/// @file
/// Tests of a chapter's executable, started as a user starts it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/chapters/02_collectives/program_run.hpp"

namespace ultra::collectives::test {

using Changes = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

inline void expect_success(const ProcessResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

/// @brief Runs of one executable, with a folder for what they write.
class ProgramTest : public ::testing::Test {
 protected:
  explicit ProgramTest(std::string program) : program_(std::move(program)) {}

  /// The executable with chapter 01's flags of a short run, changed and extended.
  [[nodiscard]] ProcessResult run(const Changes& changes = {}, const Words& more = {}) const {
    return ultra::test::run_program(program_.c_str(), flags(changes, more));
  }

  /// The executable with exactly these words.
  [[nodiscard]] ProcessResult run_words(const Words& words) const {
    return ultra::test::run_program(program_.c_str(), words);
  }

  /// The summary of a run with metrics.
  [[nodiscard]] nlohmann::json summary_of(Changes changes, const Words& more = {}) const {
    const std::string path = folder.path("metrics.jsonl");
    changes["--metrics"] = path;
    expect_success(run(changes, more));
    return events_of(path).back();
  }

  /// A run that must end with an error: one line, nothing that looks like a result, no file.
  ProcessResult failed(Changes changes, int exit_code, const Words& parts,
                       const Words& more = {}) const {
    using ::testing::AllOf;
    changes.try_emplace("--metrics", folder.path("metrics.jsonl"));
    changes.try_emplace("--trace", folder.path("trace.json"));
    const ProcessResult result = run(changes, more);
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    EXPECT_THAT(result.err, AllOf(::testing::StartsWith("error: "), ::testing::EndsWith("\n")));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << "one line: " << result.err;
    for (const std::string& part : parts) EXPECT_THAT(result.err, ::testing::HasSubstr(part));
    EXPECT_THAT(folder.names(), ::testing::IsEmpty()) << "no partial output";
    return result;
  }

  /// A run that must be refused before the first step.
  void refused(const Changes& changes, const Words& parts, const Words& more = {}) const {
    EXPECT_EQ(failed(changes, 2, parts, more).out, "");
  }

  ultra::test::TemporaryFolder folder;

 private:
  std::string program_;
};

}  // namespace ultra::collectives::test
