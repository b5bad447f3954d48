#pragma once
/// @file
/// The frame of every executable: command line in, one line per error out.

#include <functional>

#include "common/train/cli_fwd.hpp"

namespace ultra::train {

/// Exit code of a success.
inline constexpr int kExitOk = 0;
/// Exit code of a bug of the workbook.
inline constexpr int kExitBug = 1;
/// Exit code of bad input: flags, files, numbers.
inline constexpr int kExitBadInput = 2;
/// Exit code of a run that reached an exercise that is not written yet.
inline constexpr int kExitNotWritten = 3;
/// Exit code of a program that was told to stop (SIGINT, SIGTERM): the shell's for Ctrl-C.
inline constexpr int kExitInterrupted = 130;

/// @brief Parses the command line, calls `body`, and turns every error into one line on stderr.
/// @param app   the flags; what they set must outlive this call.
/// @param body  the program.
/// @return one of the exit codes above, for main to return.
[[nodiscard]] int run_program(CLI::App& app, int argc, const char* const* argv,
                              const std::function<void()>& body);

}  // namespace ultra::train
