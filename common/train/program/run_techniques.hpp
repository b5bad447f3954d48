#pragma once
/// @file
/// run_techniques: the program that a list of techniques is.

#include <memory>
#include <string>
#include <vector>

#include "common/train/program/technique.hpp"

namespace ultra::train {

/// The techniques of a program, in the order of the book.
using Techniques = std::vector<std::unique_ptr<Technique>>;

/// @brief Puts techniques into a list.
template <class... Made>
[[nodiscard]] Techniques list_of(Made... techniques) {
  Techniques list;
  (list.push_back(std::move(techniques)), ...);
  return list;
}

/// @brief The setup that flags give, checked as for training.
/// @param flags  "--dp", "2", ...; as on a command line, without the program's name.
/// @throws ConfigError for flags that cannot be read or do not fit.
[[nodiscard]] Setup parse_setup(Techniques techniques, const std::vector<std::string>& flags);

/// @brief Trains on the ranks of `world` as the flags of a setup say.
///
/// Collective: every rank calls it with the same setup.
/// @return as train().
/// @throws ConfigError when a rank was started with other flags than rank 0; what a technique
/// refuses, on every rank alike; what train() throws.
[[nodiscard]] TrainResult train_with(const Setup& setup, const Communicator& world);

/// @brief The tables of a training, for stdout; empty when it made no step.
[[nodiscard]] std::string tables(const Setup& setup, const TrainResult& result);

/// @brief Parses the command line and does what it asks for: prints an estimate or another answer,
/// measures, or trains on the ranks that it asks for.
/// @return main's exit code: see run_program().
[[nodiscard]] int run_techniques(const std::string& name, const std::string& description,
                                 Techniques techniques, int argc, const char* const* argv);

}  // namespace ultra::train
