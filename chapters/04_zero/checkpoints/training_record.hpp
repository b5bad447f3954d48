#pragma once
/// @file
/// TrainingRecord: what a checkpoint says about the training besides its tensors.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/nn/model_config.hpp"
#include "common/tensor/dtype.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::zero {

/// @brief What must be the same for a training to go on as if it had never stopped.
struct TrainingIdentity {
  nn::ModelConfig model;          ///< the whole model
  DType dtype = DType::kF32;      ///< of weights and optimizer states
  std::uint64_t seed = 1;         ///< of the data's order
  std::size_t global_batch = 16;  ///< sequences per step
  std::size_t doc_length = 0;     ///< mean tokens of a document; 0: a sequence is one
  train::Identity flags = {};     ///< of techniques, that decide what is trained
  std::string data;               ///< what the text is called; may change
  std::size_t data_bytes = 0;     ///< length of the text
  std::uint64_t data_hash = 0;    ///< of the text

  /// @brief Checks that a checkpoint is of this training.
  /// @param saved   the checkpoint's.
  /// @param folder  of the checkpoint, for the message.
  /// @throws ConfigError that names the first difference, both values, and the flag if it has one.
  void expect_same(const TrainingIdentity& saved, const std::string& folder) const;
};

/// @brief What may be changed when a training goes on; what is learnt from then on changes too.
struct TrainingSettings {
  std::size_t steps = 0;        ///< of the whole training: where the learning rate's cosine ends
  double learning_rate = 0;     ///< the highest
  std::size_t warmup = 0;       ///< steps until it is reached
  std::size_t decay = 0;        ///< last steps, in which it falls; 0: a cosine
  double clip_norm = 0;         ///< highest gradient norm; 0: none is clipped
  std::size_t micro_batch = 0;  ///< sequences per pass: sums are rounded in another order
  double mtp_weight = 0;        ///< of the loss of the tokens after next; 0: nobody predicts them
  double head_z_loss = 0;       ///< weight of the head's z-loss; 0: there is none
  std::string precision = {};   ///< the types of weights, gradients and activations; empty: --dtype

  /// @brief One line for each that differs: "Resumed with --lr 0.001; the checkpoint's run had
  /// 0.003."
  /// @param saved  the checkpoint's.
  [[nodiscard]] std::vector<std::string> changes_since(const TrainingSettings& saved) const;
};

/// @brief Those of a run.
[[nodiscard]] TrainingSettings settings_of(const train::TrainOptions& options);

/// @brief That of a run.
/// @param flags  of its techniques: train::Setup::identity().
[[nodiscard]] TrainingIdentity identity_of(const train::RunContext& context,
                                           const train::Identity& flags);

/// @brief The content of a checkpoint's training.json.
struct TrainingRecord {
  TrainingIdentity identity;                                ///< what is trained on what
  TrainingSettings settings;                                ///< how
  std::vector<train::StepMetrics> steps;                    ///< of all steps up to the checkpoint
  int optimizer_steps = 0;                                  ///< that the optimizer counts
  std::map<std::string, std::vector<double>> numbers = {};  ///< TrainingState::numbers()
  int writers = 1;                                          ///< ranks that have written it
};

/// @brief As JSON.
[[nodiscard]] std::string to_json(const TrainingRecord& record);

/// @brief Reads to_json's text.
/// @param path  of the file, for messages.
/// @throws FileError that says what is wrong with the text, or that another version has written it.
[[nodiscard]] TrainingRecord parse_record(const std::string& text, const std::string& path);

}  // namespace ultra::zero
