#pragma once
/// @file
/// The command-line options that every chapter's trainer has.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/data/token_source.hpp"
#include "common/nn/model_config.hpp"
#include "common/nn/precision.hpp"
#include "common/optim/rules.hpp"
#include "common/optim/schedule.hpp"
#include "common/tensor/device.hpp"
#include "common/tensor/dtype.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/options/file_flags.hpp"

namespace ultra::train {

/// @brief What to train, on what, for how long, and what to write.
struct TrainOptions {
  nn::ModelConfig model;        ///< --layers --hidden --heads --kv-heads --ffn --seq
                                ///< --vocab --tied-embeddings --head-dim --qkv-bias --qk-norm
                                ///< --attention and its widths, --mtp, or --init's
  std::string model_name = {};  ///< --model: whose sizes these are; or empty
  std::vector<std::string> given_model_flags = {};  ///< those of them that the command line gives
  std::size_t global_batch = 16;                    ///< sequences per optimizer step
  std::size_t micro_batch = 4;                      ///< sequences per forward and backward pass
  std::size_t steps = 150;                          ///< optimizer steps
  double learning_rate = 3e-3;                      ///< highest, after the warm-up
  std::size_t warmup = 15;                          ///< steps until it is reached
  std::optional<std::size_t> decay = {};  ///< last steps, in which it falls; absent: all others
  double clip_norm = 1.0;                 ///< highest global gradient norm; 0 means no clipping
  std::string optimizer{optim::kDefaultRule};  ///< one of optim::rule_names()
  std::vector<std::string> freeze = {};        ///< parts of names: such parameters are not trained
  double mtp_weight = 0.3;                     ///< of the loss of the tokens after next
  bool mtp_weight_given = false;               ///< whether the command line has it
  double head_z_loss = 0;                      ///< weight of the head's z-loss; 0: there is none
  std::uint64_t seed = 1;                      ///< of the weights and of the data's order
  std::size_t doc_length = 0;                  ///< mean tokens of a document; 0: a sequence is one
  DType dtype = DType::kF32;                   ///< --dtype: f32 or f64
  bool dtype_given = false;                    ///< whether the command line has it
  std::optional<nn::Precision> precision;      ///< where a technique splits dtype into several
  DeviceKind device = DeviceKind::kCpu;        ///< where tensors live
  std::string matmul =
      {};  ///< whose products a GPU computes: "vendor", "ours"; "tree" for sums by trees
           ///< anywhere; or empty, the vendor's where they are
  std::optional<std::size_t> device_memory;  ///< bytes that each rank may use; absent: all there is
  std::string init;                          ///< a folder with weights to start from; or empty
  std::string data;                          ///< a text; empty means the workbook's own
  data::TokenFormat tokens = data::TokenFormat::kBytes;  ///< how data and val_data hold tokens
  std::string mask = {};                   ///< which tokens of data have a loss; or empty: all
  std::string val_data;                    ///< a text that is not trained on; or empty
  std::size_t val_every = 0;               ///< steps from validation to validation; 0: at the end
  std::size_t val_batches = 4;             ///< global batches of a validation
  std::string given_validation_flag = {};  ///< one that needs val_data, if any is given
  std::string metrics;                     ///< JSON lines; empty means none
  std::string trace;                       ///< Chrome trace; empty means none
  std::size_t trace_steps = 4;             ///< steps that the trace covers
  bool print_ranks = false;                ///< only print how many ranks these flags need
  bool is_recorded = false;  ///< nothing of it is computed or kept: no size is too large

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Latent attention has as many heads of keys and values as of queries.
  /// @throws ConfigError for a width of latents without it.
  void settle_heads();

  /// @brief Checks the values against each other; each by itself was checked when it was read.
  /// @throws ConfigError with the equation that does not hold and its values.
  void validate() const;

  /// @brief The text to train on.
  [[nodiscard]] data::DataFile data_file() const {
    return {.path = data, .format = tokens, .vocab_size = model.vocab_size, .mask = mask};
  }
  /// @brief The text to validate on; only where val_data names one.
  [[nodiscard]] data::DataFile val_file() const {
    return {.path = val_data, .format = tokens, .vocab_size = model.vocab_size};
  }
  /// @brief Whether a validation follows a step; the first is 1.
  [[nodiscard]] bool validates_after(std::size_t step) const {
    if (val_data.empty()) return false;
    return step == steps || (val_every > 0 && step % val_every == 0);
  }

  /// @brief The element types of weights, gradients, activations, and of what the optimizer updates.
  [[nodiscard]] nn::Precision formats() const { return precision.value_or(nn::Precision(dtype)); }

  /// @brief The files that the flags name.
  [[nodiscard]] std::vector<FileFlag> files() const;

  /// @brief The learning rate over the steps.
  [[nodiscard]] optim::LearningRateSchedule schedule() const {
    return {
        .peak = learning_rate, .warmup_steps = warmup, .total_steps = steps, .decay_steps = decay};
  }
};

}  // namespace ultra::train
