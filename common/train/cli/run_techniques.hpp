#pragma once
/// @file
/// run_techniques: the program that a list of techniques is.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/train/cli/technique.hpp"

namespace ultra::train {

/// The techniques of a program, in the order of the book.
using Techniques = std::vector<std::unique_ptr<Technique>>;

/// Makes the techniques of a program: each command line has its own.
using MakeTechniques = std::function<Techniques()>;

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

/// @brief A command line, and after it the flags that its `--model NAME` stands for, except for
/// those that it gives itself. Without --model it stays as it is.
/// @throws ConfigError for a name that no model has, with all there are.
[[nodiscard]] std::vector<std::string> with_model_flags(std::vector<std::string> words,
                                                        const std::vector<NamedModel>& models);

/// Changes a rank's trainer before it is made.
using ChangeTrainer = std::function<void(Plan& plan, StepConfig& step_config)>;

/// @brief A rank's trainer: the plan, the layers and the step, as the techniques change them one by
/// one, and then `change`.
/// @param context   valid as long as the trainer.
/// @param trainers  all ranks that train.
/// Collective over trainers.
[[nodiscard]] std::unique_ptr<Worker> make_trainer(const Setup& setup, const RunContext& context,
                                                   const Communicator& trainers,
                                                   const ChangeTrainer& change = {});

/// Makes the worker of a rank; collective over context.world. Empty: a trainer on every rank.
using WorkerOfRank =
    std::function<std::unique_ptr<Worker>(const Setup& setup, const RunContext& context)>;

/// @brief Trains on the ranks of `world` as the flags of a setup say.
///
/// Collective: every rank calls it with the same setup.
/// @param make_worker  makes this rank's.
/// @return as train().
/// @throws ConfigError when a rank was started with other flags than rank 0; what a technique
/// refuses, on every rank alike; what train() throws.
[[nodiscard]] TrainResult train_with(const Setup& setup, const Communicator& world,
                                     const WorkerOfRank& make_worker = {});

/// @brief The tables of a training, for stdout; empty when it made no step.
[[nodiscard]] std::string tables(const Setup& setup, const TrainResult& result);

/// @brief Parses the command line and does what it asks for: prints an answer,
/// measures, records steps for another machine, or trains on the ranks that it asks for.
/// @param make_worker  makes the worker of each rank of a training.
/// @return main's exit code: see run_program().
[[nodiscard]] int run_techniques(const std::string& name, const std::string& description,
                                 const MakeTechniques& techniques, int argc,
                                 const char* const* argv, const WorkerOfRank& make_worker = {});

}  // namespace ultra::train
