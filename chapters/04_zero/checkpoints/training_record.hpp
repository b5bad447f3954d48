#pragma once
/// @file
/// TrainingRecord: what a checkpoint says about the training beside its tensors.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/nn/model_config.hpp"
#include "common/tensor/dtype.hpp"
#include "common/train/frame/worker.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::zero {

/// @brief What must be the same for a training to go on as if it had never stopped.
struct TrainingIdentity {
  nn::ModelConfig model;          ///< the whole model
  DType dtype = DType::kF32;      ///< of weights and moments
  std::uint64_t seed = 1;         ///< of the data's order
  std::size_t global_batch = 16;  ///< sequences per step
  std::string data;               ///< what the text is called; may change
  std::size_t data_bytes = 0;     ///< length of the text
  std::uint64_t data_hash = 0;    ///< of the text

  /// @brief Checks that a checkpoint is of this training.
  /// @param saved   the checkpoint's.
  /// @param folder  of the checkpoint, for the message.
  /// @throws ConfigError that names the first difference, both values, and the flag.
  void expect_same(const TrainingIdentity& saved, const std::string& folder) const;
};

/// @brief That of a run.
[[nodiscard]] TrainingIdentity identity_of(const train::RunContext& context);

/// @brief The content of a checkpoint's training.json.
struct TrainingRecord {
  TrainingIdentity identity;              ///< what is trained on what
  std::vector<train::StepMetrics> steps;  ///< of all steps up to the checkpoint
  int optimizer_steps = 0;                ///< that the optimizer counts
  int writers = 1;                        ///< ranks that have written it
};

/// @brief As JSON.
[[nodiscard]] std::string to_json(const TrainingRecord& record);

/// @brief Reads to_json's text.
/// @param path  of the file, for messages.
/// @throws FileError that says what is wrong with the text.
[[nodiscard]] TrainingRecord parse_record(const std::string& text, const std::string& path);

}  // namespace ultra::zero
