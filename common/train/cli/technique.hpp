#pragma once
/// @file
/// Technique: one way to train a large model, from its flags to the step. A program is a list of
/// them.
///
/// Techniques do not call each other: each tells the frame what it changes in a training. What two
/// of them could both provide is a slot, which one of them claims. What one must know of an earlier
/// one (a flag that makes its own meaningless, a part of a closed form) it looks up in the setup.

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/comm/collectives/collective_algorithms.hpp"
#include "common/comm/mesh.hpp"
#include "common/data/shared_dataset.hpp"
#include "common/nn/named_models.hpp"
#include "common/replay/prices.hpp"
#include "common/tensor/memory_tracker.hpp"
#include "common/train/cli/command_line.hpp"
#include "common/train/cli/step_config.hpp"
#include "common/train/elsewhere/on_option.hpp"
#include "common/train/model_worker.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/options/comm_options.hpp"
#include "common/train/options/conflict.hpp"
#include "common/train/options/file_flags.hpp"
#include "common/train/options/options.hpp"
#include "common/train/plan.hpp"
#include "common/train/report/metrics.hpp"
#include "common/train/run/worker.hpp"

namespace ultra::train {

/// @brief What the formulas of one exercise say of the peaks of rank 0, by category.
struct Formula {
  std::string exercise;  ///< "01.1"
  std::array<std::optional<std::size_t>, kNumMemoryCategories> bytes =
      {};  ///< indexed by MemoryCategory; absent: it says nothing of that

  /// @brief Bytes of one category.
  [[nodiscard]] std::optional<std::size_t>& operator[](MemoryCategory category) {
    return bytes[static_cast<std::size_t>(category)];
  }
  /// @brief The same.
  [[nodiscard]] const std::optional<std::size_t>& operator[](MemoryCategory category) const {
    return bytes[static_cast<std::size_t>(category)];
  }
};

/// Those of all exercises that hold.
using Formulas = std::vector<Formula>;

class Technique;

/// @brief What a program can do instead of training.
enum class Instead {
  kAnswer,       ///< something that needs no ranks
  kMeasurement,  ///< a measurement on the ranks of the run
  kRecord,       ///< what a step takes on another machine, whose ranks need not exist
};

/// @brief A flag that asks for something other than training.
struct Question {
  std::string flag;                 ///< "--simulate"
  Instead what = Instead::kAnswer;  ///< is asked for
};

/// Which algorithm each collective uses with --collectives ours, by its name.
using AlgorithmNames = std::map<OpKind, std::string>;

/// Flags that decide what is trained, with their values: "--top-k" and "2".
using Identity = std::map<std::string, std::string>;

/// @brief All flags of a program: those of every trainer, and the techniques with theirs.
struct Setup {
  TrainOptions train;  ///< model, training, files
  CommOptions comm;    ///< ranks and links; one rank unless flags say more
  OnOptions on;        ///< another machine
  std::vector<std::unique_ptr<Technique>> techniques;  ///< in the order of the book
  bool unequal_shares = false;  ///< whether a batch need not divide by the replicas
  CommandLine command_line;     ///< that has given all this; the same on every rank
  /// Opens the text, for all ranks of this process.
  std::shared_ptr<data::SharedDataset> text = std::make_shared<data::SharedDataset>();

  /// @brief The technique of a class; null when the program has none.
  template <class T>
  [[nodiscard]] const T* find() const {
    for (const auto& technique : techniques) {
      if (const auto* found = dynamic_cast<const T*>(technique.get())) return found;
    }
    return nullptr;
  }
  /// @brief The same, for one that tells another something while flags are checked.
  template <class T>
  [[nodiscard]] T* find() {
    return const_cast<T*>(std::as_const(*this).find<T>());
  }

  /// @brief What is asked for instead of training; nothing when it is to train.
  /// @throws ConfigError when two things are.
  [[nodiscard]] std::optional<Question> question() const;
  /// @brief The files that the flags name, of all techniques.
  [[nodiscard]] std::vector<FileFlag> files() const;
  /// @brief Number of replicas of the model: ranks that train over those that one replica needs.
  [[nodiscard]] int replicas() const;
  /// @brief Ranks whose gradients of the same weights add up: they share the batch and its tokens.
  [[nodiscard]] int data_ranks() const;
  /// @brief Ranks along an axis, as the techniques say; 1 where none does.
  [[nodiscard]] std::size_t ranks_along(std::string_view axis) const;
  /// @brief The mesh of this many ranks: replicas, and what the techniques' axes say.
  [[nodiscard]] MeshShape mesh_shape(int ranks) const;
  /// @brief Ranks of one replica, and the flags that say so, joined by "and".
  [[nodiscard]] std::pair<std::size_t, std::string> ranks_per_replica() const;
  /// @brief Whether there can be several ranks: some technique brings the algorithms of their
  /// collectives.
  [[nodiscard]] bool has_ranks() const;
  /// @brief All flags for the metrics file.
  [[nodiscard]] ExtraConfig config() const;
  /// @brief Those of all techniques' flags that decide what is trained.
  [[nodiscard]] Identity identity() const;
  /// @brief Ranks of the training; 1 unless has_ranks().
  [[nodiscard]] int ranks() const { return has_ranks() ? comm.world_size() : 1; }
  /// @brief How the ranks run.
  [[nodiscard]] RankOptions rank_options() const;
  /// @brief The formulas of all techniques that hold for these flags.
  [[nodiscard]] Formulas formulas() const;
};

/// @brief A published model.
struct NamedModel {
  std::string name;                                        ///< "llama-8b"
  std::vector<std::pair<std::string, std::string>> flags;  ///< "--layers" and "32"; a switch has ""
};

/// @brief The flags that describe a model of our own architecture.
[[nodiscard]] NamedModel in_flags(const nn::NamedModel& named);

/// @brief Something that a training keeps and a checkpoint does not.
struct UnsavedState {
  std::string flag;    ///< that asks for it: "--compress"
  std::string reason;  ///< and what to do: a sentence
  bool kept = false;   ///< the flag is given
};

/// @brief One technique of training: all that it can change, with defaults.
/// Bodies: one file in each chapter, such as chapters/03_data_parallel/data_parallel.cpp.
class Technique {
 public:
  Technique() = default;
  Technique(const Technique&) = delete;
  Technique& operator=(const Technique&) = delete;
  virtual ~Technique() = default;

  // From the command line -------------------------------------------------------------------------

  /// @brief Changes the words of a command line before they are read, where a flag means something
  /// else with this technique.
  [[nodiscard]] virtual std::vector<std::string> rewrite(std::vector<std::string> words) const {
    return words;
  }
  /// @brief Adds its flags. Those of the techniques before are there already.
  virtual void add_flags([[maybe_unused]] CLI::App& app, [[maybe_unused]] Setup& setup) {}
  /// @brief Checks its flags, against each other and against those of the techniques before.
  /// @throws ConfigError that says what does not fit and what to do.
  virtual void validate([[maybe_unused]] Setup& setup) {}
  /// @brief Settles what follows from the flags of all techniques, which are valid: the number of
  /// ranks. Not called for an answer that needs none.
  /// @throws ConfigError that says what does not fit and what to do.
  virtual void check_ranks([[maybe_unused]] Setup& setup) {}
  /// @brief Checks what only training needs.
  /// @throws ConfigError that says what does not fit and what to do.
  virtual void validate_training([[maybe_unused]] const Setup& setup) const {}
  /// @brief Which flags its own cannot be combined with, for a table of all such pairs. It checks
  /// them itself, in validate() or validate_training(), by reject_conflicts().
  [[nodiscard]] virtual std::vector<Conflict> conflicts([[maybe_unused]] const Setup& setup) const {
    return {};
  }
  /// @brief Which of its flags a recorded step cannot have: rows of not_recorded(), checked only
  /// with --on.
  [[nodiscard]] virtual std::vector<Conflict> conflicts_with_recording(
      [[maybe_unused]] const Setup& setup) const {
    return {};
  }
  /// @brief The files and folders that its flags name.
  [[nodiscard]] virtual std::vector<FileFlag> files() const { return {}; }
  /// @brief Published models that its flags can describe, for --model.
  [[nodiscard]] virtual std::vector<NamedModel> named_models() const { return {}; }
  /// @brief Its flags for the metrics file.
  [[nodiscard]] virtual ExtraConfig config([[maybe_unused]] const Setup& setup) const { return {}; }

  /// @brief Those of its flags that decide what is trained: a checkpoint goes on with the same ones.
  [[nodiscard]] virtual Identity identity([[maybe_unused]] const Setup& setup) const { return {}; }

  // Instead of training ---------------------------------------------------------------------------

  /// @brief Those of its flags that were given and ask for something other than training.
  [[nodiscard]] virtual std::vector<Question> questions() const { return {}; }
  /// @brief The answer to its question that needs no ranks; empty: none is asked for.
  [[nodiscard]] virtual std::optional<std::string> answer(
      [[maybe_unused]] const Setup& setup) const {
    return {};
  }
  /// @brief Measures what it was asked to, and prints it.
  virtual void measure([[maybe_unused]] const Setup& setup) const {}

  // What the ranks are to each other --------------------------------------------------------------

  /// @brief Its axis of the mesh; none by default.
  [[nodiscard]] virtual std::optional<Axis> axis() const { return {}; }
  /// @brief Its own way to count the ranks of other axes; none by default.
  [[nodiscard]] virtual std::optional<MeshView> mesh_view() const { return {}; }
  /// @brief The algorithms that it wants.
  virtual void name_algorithms([[maybe_unused]] AlgorithmNames& names) const {}
  /// @brief Makes algorithms of names; null unless this technique brings them.
  [[nodiscard]] virtual std::shared_ptr<const comm::CollectiveAlgorithms> algorithms(
      [[maybe_unused]] const AlgorithmNames& names) const {
    return nullptr;
  }
  /// @brief What an exchange takes on the links of another machine; empty unless this technique says
  /// so.
  [[nodiscard]] virtual replay::PriceExchange exchange_price() const { return {}; }
  /// @brief Changes the plan: adds groups, cuts the model into chunks. Collective over
  /// plan.ranks().
  virtual void configure_plan([[maybe_unused]] Plan& plan,
                              [[maybe_unused]] const Setup& setup) const {}

  // What a rank does ------------------------------------------------------------------------------

  /// @brief Wraps the factory of layers, factories.back(), if it changes layers.
  /// @param plan  outlives the factories and what they make.
  virtual void wrap_layers([[maybe_unused]] FactoryStack& factories,
                           [[maybe_unused]] const Plan& plan,
                           [[maybe_unused]] const Setup& setup) const {}
  /// @brief Puts what it provides into the step.
  virtual void configure_step([[maybe_unused]] StepConfig& step_config,
                              [[maybe_unused]] const Setup& setup) const {}
  /// @brief Puts a worker around a rank's trainer, or returns that.
  /// @param trainer  what it trains with; ends with the worker.
  [[nodiscard]] virtual std::unique_ptr<Worker> wrap_worker(
      std::unique_ptr<Worker> worker, [[maybe_unused]] const TrainerState& trainer,
      [[maybe_unused]] const Setup& setup) const {
    return worker;
  }
  /// @brief What it keeps that ModelStates does not have, so that a saved training would not be
  /// whole.
  [[nodiscard]] virtual std::vector<UnsavedState> states_that_are_not_saved() const { return {}; }

  // After training, or instead of it --------------------------------------------------------------

  /// @brief Adds the formulas of its exercises to those of the techniques before, and takes out what
  /// of them does not hold any more.
  virtual void write_formulas([[maybe_unused]] Formulas& formulas,
                              [[maybe_unused]] const Setup& setup) const {}

  /// @brief A table of its own, printed after that of memory.
  [[nodiscard]] virtual std::string table([[maybe_unused]] const Setup& setup,
                                          [[maybe_unused]] const TrainResult& result) const {
    return {};
  }
};

/// @brief A prediction as a technique that answers instead of training.
/// Requires: Options has kFlag, add_to, validate, predicts and answer, as a table of methods has;
/// and files, when it names any.
template <class Options>
class Prediction : public Technique {
 public:
  void add_flags(CLI::App& app, Setup&) override { options_.add_to(app); }
  void validate(Setup&) override { options_.validate(); }
  [[nodiscard]] std::vector<FileFlag> files() const override {
    if constexpr (requires { options_.files(); }) return options_.files();
    return {};
  }
  [[nodiscard]] std::vector<Question> questions() const override {
    if (!options_.predicts()) return {};
    return {{Options::kFlag, Instead::kAnswer}};
  }
  [[nodiscard]] std::optional<std::string> answer(const Setup& setup) const override {
    if (!options_.predicts()) return {};
    return options_.answer(setup.train.model);
  }

 private:
  Options options_;
};

}  // namespace ultra::train
