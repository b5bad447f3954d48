#pragma once
/// @file
/// CommandLine: a program and the values of all its flags, to compare between ranks.

#include <map>
#include <span>
#include <string>

#include "common/comm/communicator.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/options/file_flags.hpp"

namespace ultra::train {

/// @brief What a process was started as.
struct CommandLine {
  std::string program;                       ///< its name
  std::map<std::string, std::string> flags;  ///< as given, or their defaults; empty: not given
};

/// @brief A command line that has been read.
/// @param own_files  flags whose paths are each process's own: that they are given stands for them.
[[nodiscard]] CommandLine command_line_of(const CLI::App& app, std::span<const FileFlag> own_files);

/// @brief Checks that all ranks were started alike. Collective; before the ranks do anything else,
/// because what they do follows from their flags.
/// @throws ConfigError that names a rank with other flags than rank 0's, with both values of each;
/// the same on every rank.
void expect_same_command_line(const Communicator& world, const CommandLine& line);

}  // namespace ultra::train
