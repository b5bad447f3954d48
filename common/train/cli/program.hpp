#pragma once
/// @file
/// The frame of every executable: command line in, one line per error out.

#include <functional>
#include <string>
#include <vector>

#include "common/train/options/cli_fwd.hpp"

namespace ultra::train {

/// Exit code of a success.
inline constexpr int kExitOk = 0;
/// Exit code of what no flag mends: a bug of the workbook, or ranks that lost each other (a
/// CommError: a timeout, a deadlock, operations that do not match, a rank that was killed).
inline constexpr int kExitBug = 1;
/// Exit code of bad input: flags, files, numbers.
inline constexpr int kExitBadInput = 2;
/// Exit code of a run that reached an exercise that is not written yet.
inline constexpr int kExitNotWritten = 3;
/// Exit code of an answer that is not as the command line asserts (NotAsAsserted).
inline constexpr int kExitNotAsAsserted = 4;
/// Exit code of a program that was told to stop (SIGINT, SIGTERM): the shell's for Ctrl-C.
inline constexpr int kExitInterrupted = 130;

/// @brief What an executable is.
struct Program {
  std::string name;                          ///< for --help
  std::string description;                   ///< for --help: one sentence
  std::function<void(CLI::App&)> add_flags;  ///< adds its flags to the command line
  std::function<void()> body;                ///< what it does when they are set
  /// Changes the words of the command line before they are read; empty: it does not.
  std::function<std::vector<std::string>(std::vector<std::string>)> rewrite = {};
};

/// @brief Parses the command line, calls the body, and turns every error into one line on stderr.
///
/// Under mpirun one process prints that line: rank 0, unless it died or was never told of the
/// failure (see reports_for_all()). The line names the rank where the failure began unless all ranks
/// failed alike. All ranks return the same code: that of the error with which it began.
/// @param program  what its flags set must outlive this call.
/// @return one of the exit codes above, for main to return.
[[nodiscard]] int run_program(const Program& program, int argc, const char* const* argv);

}  // namespace ultra::train
