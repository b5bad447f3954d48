#pragma once
/// @file
/// The command-line options that every chapter's trainer has.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/nn/model_config.hpp"
#include "common/optim/schedule.hpp"
#include "common/tensor/device.hpp"
#include "common/tensor/dtype.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/options/file_flags.hpp"

namespace ultra::train {

/// @brief What to train, on what, for how long, and what to write.
struct TrainOptions {
  nn::ModelConfig model;          ///< --layers --hidden --heads --kv-heads --ffn --seq
  std::size_t global_batch = 16;  ///< sequences per optimizer step
  std::size_t micro_batch = 4;    ///< sequences per forward and backward pass
  std::size_t steps = 150;        ///< optimizer steps
  double learning_rate = 3e-3;    ///< highest, after the warm-up
  std::size_t warmup = 15;        ///< steps until it is reached
  double clip_norm = 1.0;         ///< highest global gradient norm; 0 means no clipping
  std::uint64_t seed = 1;         ///< of the weights and of the data's order
  std::size_t doc_length = 0;     ///< mean tokens of a document; 0: a sequence is one
  /// Flags of techniques that decide what is trained, with their values.
  std::map<std::string, std::string> variant = {};
  DType dtype = DType::kF32;                 ///< of weights and activations
  DeviceKind device = DeviceKind::kCpu;      ///< where tensors live
  std::optional<std::size_t> device_memory;  ///< bytes that each rank may use; absent: all there is
  std::string data;                          ///< a text; empty means the workbook's own
  std::string metrics;                       ///< JSON lines; empty means none
  std::string trace;                         ///< Chrome trace; empty means none
  std::size_t trace_steps = 4;               ///< steps that the trace covers
  bool print_ranks = false;                  ///< only print how many ranks these flags need

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the values against each other; each by itself was checked when it was read.
  /// @throws ConfigError with the equation that does not hold and its values.
  void validate() const;

  /// @brief The files that the flags name.
  [[nodiscard]] std::vector<FileFlag> files() const;

  /// @brief The learning rate over the steps.
  [[nodiscard]] optim::WarmupCosine schedule() const {
    return {.peak = learning_rate, .warmup_steps = warmup, .total_steps = steps};
  }
};

}  // namespace ultra::train
