#include "common/train/options/options.hpp"

#include <fmt/format.h>

#include <cmath>

#include "common/base/errors.hpp"
#include "common/base/units.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::train {
namespace {

/// Bytes above this do not fit a machine, and far above it not the integers that count them.
constexpr double kLargestBytes = 1e13;

/// More than weights, gradients, moments and activations can be, without overflow.
double bytes_upper_bound(const TrainOptions& options) {
  const auto real = [](std::size_t value) { return static_cast<double>(value); };
  const nn::ModelConfig& model = options.model;
  const double width =
      real(model.hidden_size) + real(model.ffn_hidden_size) + real(model.vocab_size);
  const double layers = real(model.num_layers) + 1.0;
  const double states = 4.0 * width * width * layers;
  const double activations =
      real(options.micro_batch) * real(model.max_seq_len) * 8.0 * width * layers;
  const double tokens = real(options.global_batch) * real(model.max_seq_len);
  return (4.0 * states + activations + tokens) * real(size_of(options.dtype));
}

void expect_different_files(const char* flag, const std::string& path, const char* other_flag,
                            const std::string& other_path) {
  if (path.empty() || path != other_path) return;
  throw ConfigError(fmt::format("{} and {} both name '{}'. Give each a file of its own.", flag,
                                other_flag, path));
}

}  // namespace

void TrainOptions::add_to(CLI::App& app) {
  const Flags model_flags(app, "Model");
  model_flags.add("--layers", model.num_layers, "transformer blocks");
  model_flags.add("--hidden", model.hidden_size, "hidden size");
  model_flags.add("--heads", model.num_heads, "query heads; divides --hidden");
  model_flags.add("--kv-heads", model.num_kv_heads, "key/value heads; divides --heads");
  model_flags.add("--ffn", model.ffn_hidden_size, "width of the feed-forward part");
  model_flags.add("--seq", model.max_seq_len, "tokens per sequence");

  const Flags training(app, "Training");
  training.add("--global-batch", global_batch, "sequences per optimizer step");
  training.add("--micro-batch", micro_batch, "sequences per forward and backward pass");
  training.add("--steps", steps, "optimizer steps");
  training.add("--lr", learning_rate, "highest learning rate");
  training.add("--warmup", warmup, "steps until the highest learning rate");
  training.add("--clip", clip_norm, "highest global gradient norm; 0 is no clipping");
  training.add("--seed", seed, "seed of weights and data order");
  training.add_parsed(
      "--dtype", [this](const std::string& text) { dtype = parse_float_dtype(text); }, "f32 or f64",
      "f32");
  training.add_parsed(
      "--device", [this](const std::string& text) { device = parse_device_kind(text); },
      "cpu or cuda", "cpu");
  training.add_parsed(
      "--device-memory",
      [this](const std::string& text) {
        try {
          device_memory = parse_bytes(text);
        } catch (const ConfigError& error) {
          throw ConfigError(fmt::format("--device-memory: {}", error.what()));
        }
      },
      "what the tensors of a rank may take, for example 64MB [all there is]");

  const Flags files(app, "Files");
  files.add("--data", data, "any text file [the workbook's own text]");
  files.add("--metrics", metrics, "write one JSON line per step, and a summary");
  files.add("--trace", trace, "write a timeline that ui.perfetto.dev opens");
  files.add("--trace-steps", trace_steps, "steps that the timeline covers");
  Flags(app, "").add_switch("--print-ranks", print_ranks,
                            "print how many ranks these flags need, and stop");
}

void TrainOptions::validate() const {
  model.validate();
  if (global_batch == 0) throw ConfigError("--global-batch is 0. It must be at least 1.");
  if (micro_batch == 0) throw ConfigError("--micro-batch is 0. It must be at least 1.");
  if (global_batch % micro_batch != 0) {
    throw ConfigError(fmt::format(
        "--micro-batch must divide --global-batch: {} % {} = {}. Choose a divisor of {}.",
        global_batch, micro_batch, global_batch % micro_batch, global_batch));
  }
  if (steps == 0) throw ConfigError("--steps is 0. It must be at least 1.");
  if (!std::isfinite(learning_rate) || learning_rate < 0.0) {
    throw ConfigError(fmt::format("--lr is {}. It must be a number of at least 0.", learning_rate));
  }
  if (!std::isfinite(clip_norm) || clip_norm < 0.0) {
    throw ConfigError(fmt::format("--clip is {}. It must be a number of at least 0.", clip_norm));
  }
  if (bytes_upper_bound(*this) > kLargestBytes) {
    throw ConfigError(
        "this model and batch can take more than 10 TB. Choose smaller --layers, --hidden, --ffn, "
        "--seq, --micro-batch or --global-batch.");
  }
  expect_different_files("--metrics", metrics, "--trace", trace);
  expect_different_files("--data", data, "--metrics", metrics);
  expect_different_files("--data", data, "--trace", trace);
}

}  // namespace ultra::train
