#pragma once
/// @file
/// --scale-tp: how throughput changes with the ranks that share each matrix, instead of training.

#include <cstddef>
#include <memory>
#include <string>

#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_model.hpp"
#include "common/nn/model_config.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/options/cli_fwd.hpp"

namespace ultra::tensor_parallel {

/// @brief --scale-tp with its own flags.
struct TpScalingOptions {
  static constexpr const char* kFlag = "--scale-tp";  ///< that asks for a prediction

  std::string tp;                      ///< --scale-tp "1,2,4,8,16"; empty means: train
  std::string machine = "h100";        ///< --scale-tp-machine, see parse_topology(); one node
  std::string preset = "playbook-3b";  ///< --scale-tp-preset: that, or as for --scale-preset
  std::size_t seq_len = 4096;          ///< --scale-tp-seq
  std::string micro_batch;  ///< --scale-tp-micro-batch "4" or one per tp; empty: the Playbook's for
                            ///< its model, else 4
  SequenceParallel sequence_parallel = SequenceParallel::kOn;  ///< --scale-tp-sp
  Hide hide = Hide::kNothing;                                  ///< --scale-tp-hide
  ExchangeAlgorithm algorithm = ExchangeAlgorithm::kTwoLevel;  ///< --scale-tp-algorithm
  std::size_t element_bytes = 2;                               ///< --scale-tp-bytes
  double peak_tflops = 989.0;            ///< --scale-tp-peak-tflops, 1e12 FLOP/s
  double mfu = 0.4;                      ///< --scale-tp-mfu
  double memory_gb_per_second = 3350.0;  ///< --scale-tp-memory-gb-per-second, 1e9 bytes/s
  bool json = false;                     ///< --scale-tp-json

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the flags against each other.
  /// @throws ConfigError when a flag is given that has no meaning without --scale-tp.
  void validate() const;

  /// @brief True when a prediction is asked for, not training.
  [[nodiscard]] bool predicts() const { return !tp.empty(); }

  /// @brief The question to the model.
  /// @param custom  what --scale-tp-preset custom means: the model that the trainer's flags
  /// describe.
  /// @throws ConfigError for numbers, a machine or a model that there are not.
  [[nodiscard]] TpScalingRequest request(const nn::ModelConfig& custom) const;

  /// @brief The answer to --scale-tp, for stdout: a table, or JSON with --scale-tp-json.
  /// @throws ConfigError as request() does.
  [[nodiscard]] std::string answer(const nn::ModelConfig& custom) const;
};

/// @brief The prediction of throughput over tp, as a technique that answers instead of training.
[[nodiscard]] std::unique_ptr<train::Technique> tp_scaling_prediction();

}  // namespace ultra::tensor_parallel
