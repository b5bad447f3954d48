#pragma once
/// @file
/// Runs of the executable 02_collectives, alone and under mpirun.

#include <chrono>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/chapters/01_memory/program_flags.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ultra::collectives::test {

using memory::test::flags;
using ultra::test::ProcessResult;

inline constexpr const char* kProgram = "02_collectives";

/// @brief Runs the executable with chapter 01's flags of a short run, changed and extended.
inline ProcessResult run(const std::map<std::string, std::string>& changes = {},
                         const std::vector<std::string>& more = {}) {
  return ultra::test::run_program(kProgram, flags(changes, more));
}

/// @brief Runs a shell command once per process of mpirun; "$0" "$@" is the executable with the flags.
inline ProcessResult run_shell_with_mpi(int processes, const std::string& command,
                                        const std::map<std::string, std::string>& changes = {},
                                        const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"/bin/sh", "-c", command, ultra::test::program_path(kProgram)};
  const std::vector<std::string> own = flags(changes, more);
  words.insert(words.end(), own.begin(), own.end());
  return ultra::test::run_with_mpirun(processes, words, std::chrono::seconds(60));
}

/// @brief Runs the executable under mpirun.
inline ProcessResult run_with_mpi(int processes,
                                  const std::map<std::string, std::string>& changes = {},
                                  const std::vector<std::string>& more = {}) {
  return run_shell_with_mpi(processes, R"(exec "$0" "$@")", changes, more);
}

/// @brief How many lines of a text start with "error: ".
inline int error_lines(const std::string& text) {
  int count = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) count += line.starts_with("error: ") ? 1 : 0;
  return count;
}

/// @brief The events of a metrics file.
inline std::vector<nlohmann::json> events_of(const std::string& path) {
  std::istringstream lines(ultra::test::read_file(path));
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(lines, line);) {
    events.push_back(nlohmann::json::parse(line));
  }
  return events;
}

}  // namespace ultra::collectives::test
