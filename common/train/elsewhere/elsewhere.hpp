#pragma once
/// @file
/// What --on does to a setup, and what it answers.

#include <functional>
#include <string>
#include <vector>

#include "common/train/cli/technique.hpp"

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

/// @brief Several command lines.
struct Sweep {
  std::vector<std::string> flags;                ///< that have several values
  std::vector<std::vector<std::string>> values;  ///< of them, by line
  std::vector<std::vector<std::string>> lines;   ///< words without lists; at least one
};

/// Whether a flag reads a value as it stands.
using ReadsValue = std::function<bool(const std::string& flag, const std::string& value)>;

/// @brief All combinations of the values that stand with commas between them, the last flag's
/// fastest. A value with commas that its flag reads itself is one value, as is --on's.
/// @throws ConfigError for more combinations than anybody looks at.
[[nodiscard]] Sweep sweep_of(const std::vector<std::string>& words, const ReadsValue& reads);

/// Reads one line of a sweep as the program reads a command line.
using ReadLine = std::function<Setup(const std::vector<std::string>& words)>;

/// @brief The same for each line of a sweep, as a table; lines that make no training say why.
/// @throws ConfigError when none does, and when --trace is given.
[[nodiscard]] std::string report_sweep(const Sweep& sweep, const ReadLine& read);

}  // namespace ultra::train
