#pragma once
/// @file
/// Starts the programs of this build, as a user would.

#include <chrono>
#include <string>
#include <vector>

namespace ultra::test {

/// @brief What a program left behind.
struct ProcessResult {
  int exit_code = -1;  ///< 128 + n when signal n ended it
  std::string out;     ///< its standard output
  std::string err;     ///< its standard error
  double seconds = 0;  ///< how long it ran
  /// What it had started and had not ended when its time was up: 0 when it ended by itself.
  int running_children = 0;
};

/// @brief The path of an executable of this build: bin/NAME beside the folder of this test.
[[nodiscard]] std::string program_path(const std::string& name);

/// @brief Runs a program of this build to its end, with no terminal.
///
/// Root's right to read and write everything is taken from it, so that permissions count.
/// @param name  of the executable, for example "01_memory".
[[nodiscard]] ProcessResult run_program(const std::string& name,
                                        const std::vector<std::string>& arguments);

/// @brief Runs any command to its end, with no terminal.
/// @param words  the program's path and its arguments.
/// @param limit  on an idle machine (patience.hpp); after it the command is ended, mpirun with all
/// that it started: exit code 124.
[[nodiscard]] ProcessResult run_command(const std::vector<std::string>& words,
                                        std::chrono::seconds limit);

/// @brief Starts a program of this build, with no terminal, and sends it a signal.
/// @param after  from the moment at which the program catches the signal.
/// @param limit  from the signal to the end, of an idle machine; after it the program is ended:
/// exit code 124.
[[nodiscard]] ProcessResult interrupt_program(const std::string& name,
                                              const std::vector<std::string>& arguments, int signal,
                                              std::chrono::milliseconds after,
                                              std::chrono::seconds limit);

/// @brief Whether run_with_mpirun can be used.
[[nodiscard]] bool has_mpirun();

/// @brief The words that run a command under mpirun, once per process.
///
/// Leaks are not looked for there: MPI leaves memory of its own at its end.
[[nodiscard]] std::vector<std::string> mpirun_words(int processes,
                                                    const std::vector<std::string>& words);

/// @brief Runs a command under mpirun, once per process.
[[nodiscard]] ProcessResult run_with_mpirun(int processes, const std::vector<std::string>& words,
                                            std::chrono::seconds limit);

}  // namespace ultra::test
