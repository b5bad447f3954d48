#pragma once
/// @file
/// What --on does to a setup, and what it answers.

#include <functional>
#include <string>
#include <vector>

#include "common/train/cli/technique.hpp"
#include "common/train/elsewhere/sweep.hpp"

namespace ultra::train {

/// @brief Settles what --on changes before flags are checked: there are as many ranks as the machine
/// has GPUs, and numbers are bf16 with gradients and master weights in f32, unless flags say
/// otherwise.
/// @throws ConfigError for a machine that cannot be read, for --ranks of another number, and for
/// flags of every trainer that a recorded step cannot have.
void move_elsewhere(Setup& setup);

/// @brief What cannot be recorded, of every trainer's flags and of all techniques': rows whose
/// second flag is kOnFlag.
[[nodiscard]] std::vector<Conflict> conflicts_with_recording(const Setup& setup);

/// @brief Records a step, prices it on the machine of --on, and says what it takes, for stdout; writes
/// the trace that --trace names.
/// @throws what record_step() and writing the trace throw.
[[nodiscard]] std::string report_on_machine(const Setup& setup);

/// Reads one line of a sweep as the program reads a command line.
using ReadLine = std::function<Setup(const std::vector<std::string>& words)>;

/// @brief The same for each line of a sweep, as a table; lines that make no training say why.
/// @throws ConfigError when none does, and when --trace is given.
[[nodiscard]] std::string report_sweep(const Sweep& sweep, const ReadLine& read);

}  // namespace ultra::train
