#pragma once
/// @file
/// --scale: how far data parallelism would scale, instead of training.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chapters/03_data_parallel/scaling/scaling_model.hpp"
#include "common/nn/model_config.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/options/cli_fwd.hpp"

namespace ultra::data_parallel {

/// @brief --scale with its own flags.
struct ScalingOptions {
  static constexpr const char* kFlag = "--scale";  ///< that asks for a prediction

  std::string scale;                        ///< "1,2,4,8"; empty means: train
  std::string machine = "h100";             ///< --scale-machine, see parse_topology(); one node
  std::string algorithm = "two-level";      ///< --scale-algorithm
  std::string preset = "llama-1b";          ///< --scale-preset, see shape_for_estimate()
  std::size_t seq_len = 4096;               ///< --scale-seq
  std::optional<std::size_t> global_batch;  ///< --scale-global-batch; 256 without rank_batch
  std::optional<std::size_t> rank_batch;    ///< --scale-rank-batch
  std::size_t micro_batch = 0;              ///< --scale-micro-batch
  std::size_t element_bytes = 2;            ///< --scale-bytes
  double peak_tflops = 989.0;               ///< --scale-peak-tflops, 1e12 FLOP/s
  double mfu = 0.4;                         ///< --scale-mfu
  double bucket_mb = 25.0;                  ///< --scale-bucket-mb, 1e6 bytes
  bool json = false;                        ///< --scale-json

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the flags against each other.
  /// @throws ConfigError when a flag is given that has no meaning without another, or two that
  /// exclude each other.
  void validate() const;

  /// @brief True when a prediction is asked for, not training.
  [[nodiscard]] bool predicts() const { return !scale.empty(); }

  /// @brief The question to the model.
  /// @param custom  what --scale-preset custom means: the model that the trainer's flags describe.
  /// @throws ConfigError for numbers, a machine, an algorithm or a model that there are not.
  [[nodiscard]] ScalingRequest request(const nn::ModelConfig& custom) const;

  /// @brief The answer to --scale, for stdout: a table, or JSON with --scale-json.
  /// @throws ConfigError as request() does.
  [[nodiscard]] std::string answer(const nn::ModelConfig& custom) const;
};

/// @brief A prediction as a technique that answers instead of training.
/// Requires: Options has kFlag, add_to, validate, predicts and answer, as ScalingOptions; and files,
/// when it names any.
template <class Options>
class Prediction : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override { options_.add_to(app); }
  void validate(train::Setup&) override { options_.validate(); }
  [[nodiscard]] std::vector<train::FileFlag> files() const override {
    if constexpr (requires { options_.files(); }) return options_.files();
    return {};
  }
  [[nodiscard]] std::vector<train::Question> questions() const override {
    if (!options_.predicts()) return {};
    return {{Options::kFlag, train::Instead::kAnswer}};
  }
  [[nodiscard]] std::optional<std::string> answer(const train::Setup& setup) const override {
    if (!options_.predicts()) return {};
    return options_.answer(setup.train.model);
  }

 private:
  Options options_;
};

/// @brief The prediction of scaling.
[[nodiscard]] std::unique_ptr<train::Technique> scaling_prediction();

}  // namespace ultra::data_parallel
