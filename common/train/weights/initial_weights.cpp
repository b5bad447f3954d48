#include "common/train/weights/initial_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <tuple>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/base/text.hpp"
#include "common/checkpoint/llama_folder.hpp"
#include "common/tensor/host_view.hpp"
#include "common/train/run/agree.hpp"
#include "common/train/weights/piece_runs.hpp"

namespace ultra::train {
namespace {

/// A flag, the model's member that it sets, and what config.json calls that.
struct ModelFlag {
  const char* flag;
  std::size_t nn::ModelConfig::*member;
  const char* key;
};
constexpr ModelFlag kModelSizes[] = {
    {"--layers", &nn::ModelConfig::num_layers, "num_hidden_layers"},
    {"--hidden", &nn::ModelConfig::hidden_size, "hidden_size"},
    {"--heads", &nn::ModelConfig::num_heads, "num_attention_heads"},
    {"--kv-heads", &nn::ModelConfig::num_kv_heads, "num_key_value_heads"},
    {"--ffn", &nn::ModelConfig::ffn_hidden_size, "intermediate_size"},
    {"--vocab", &nn::ModelConfig::vocab_size, "vocab_size"},
    {"--window", &nn::ModelConfig::sliding_window, "sliding_window"}};

/// What fn returns; the message about a file names the flag.
template <class Fn>
auto of_init(const Fn& fn) {
  try {
    return fn();
  } catch (const FileError& error) {
    throw FileError(fmt::format("--init: {}", error.what()));
  }
}

bool is_given(const TrainOptions& options, const char* flag) {
  return std::ranges::find(options.given_model_flags, flag) != options.given_model_flags.end();
}

std::string latent_widths(const nn::LatentAttention& latent) {
  return fmt::format("latents of {} and {}, heads of {} + {} and {}", latent.kv_lora_rank,
                     latent.q_lora_rank, latent.qk_nope_head_dim, latent.qk_rope_head_dim,
                     latent.v_head_dim);
}

/// Checks the sizes against each other. The message has config.json's names of them: the user has
/// given no flags.
void expect_a_model(const nn::ModelConfig& stored, const std::string& folder) {
  try {
    stored.validate();
  } catch (const ConfigError& error) {
    std::string what = error.what();
    const auto rename = [&](std::string_view flag, const char* key) {
      for (std::size_t at = what.find(flag); at != std::string::npos; at = what.find(flag, at)) {
        what.replace(at, flag.size(), key);
      }
    };
    for (const auto& [flag, member, key] : kModelSizes) rename(flag, key);
    rename("--head-dim", "head_dim");
    throw FileError(
        fmt::format("the sizes in config.json of {} make no model: {} Take another copy of it.",
                    in_quotes(folder), what));
  }
}

void expect_same_latents(const TrainOptions& options, const nn::ModelConfig& stored) {
  const nn::LatentAttention& given = options.model.latent;
  if (is_given(options, "--attention") && given.on != stored.latent.on) {
    throw ConfigError(
        fmt::format("--attention is {}, and the model of --init {} has {}. Leave --attention out.",
                    given.on ? "mla" : "gqa", in_quotes(options.init),
                    stored.latent.on ? "latents (kv_lora_rank)" : "no latents"));
  }
  if (given.on && !(given == nn::LatentAttention{.on = true, .absorbed = given.absorbed}) &&
      latent_widths(given) != latent_widths(stored.latent)) {
    throw ConfigError(
        fmt::format("the flags say {}, and the model of --init {} has {}. Leave the widths of "
                    "latents out: the sizes are the folder's.",
                    latent_widths(given), in_quotes(options.init), latent_widths(stored.latent)));
  }
}

void expect_no_contradiction(const TrainOptions& options, const nn::ModelConfig& stored) {
  for (const auto& [flag, member, key] : kModelSizes) {
    if (!is_given(options, flag) || options.model.*member == stored.*member) continue;
    throw ConfigError(
        fmt::format("{0} is {1}, and the model of --init {2} has {3} {4}. Leave {0} out: the sizes "
                    "are the folder's.",
                    flag, options.model.*member, in_quotes(options.init), key, stored.*member));
  }
  const std::tuple<const char*, bool nn::ModelConfig::*, const char*> switches[] = {
      {"--tied-embeddings", &nn::ModelConfig::tied_embeddings,
       "an output matrix of its own (tie_word_embeddings false)"},
      {"--qkv-bias", &nn::ModelConfig::qkv_bias, "no biases of queries, keys and values"},
      {"--qk-norm", &nn::ModelConfig::qk_norm, "no norms of queries and keys"},
      {"--mtp", &nn::ModelConfig::mtp,
       "no block for the token after next (num_nextn_predict_layers 0)"}};
  for (const auto& [flag, member, has] : switches) {
    if (!(options.model.*member) || stored.*member) continue;
    throw ConfigError(
        fmt::format("{0} is given, and the model of --init {1} has {2}. Leave {0} out.", flag,
                    in_quotes(options.init), has));
  }
  expect_same_latents(options, stored);
  if (is_given(options, "--head-dim") && options.model.head_dim() != stored.head_dim()) {
    throw ConfigError(
        fmt::format("--head-dim is {}, and the heads of --init {} have {} elements (head_dim). "
                    "Leave --head-dim "
                    "out: the sizes are the folder's.",
                    options.model.head_size, in_quotes(options.init), stored.head_dim()));
  }
  if (is_given(options, "--seq") && options.model.max_seq_len > stored.max_seq_len) {
    throw ConfigError(
        fmt::format("--seq is {}, and the model of --init {} knows {} positions "
                    "(max_position_embeddings). Give --seq {} or less.",
                    options.model.max_seq_len, in_quotes(options.init), stored.max_seq_len,
                    stored.max_seq_len));
  }
}

/// A training that begins with NaN or infinity would end with it, and be blamed.
void expect_finite(const std::string& folder, const std::string& name, std::size_t first_element,
                   const Tensor& values) {
  dispatch_float(values.dtype(), [&]<class T>() {
    const HostView<const T> numbers(values);
    const auto found = std::ranges::find_if_not(numbers, [](T x) { return std::isfinite(x); });
    if (found == numbers.end()) return;
    throw FileError(fmt::format(
        "the weights of {} cannot be trained: element {} of {} is {} in {}. Take another copy of "
        "the model.",
        in_quotes(folder), first_element + static_cast<std::size_t>(found - numbers.begin()), name,
        *found, to_string(values.dtype())));
  });
}

/// Fills a piece's values; what pads it stays 0.
void read_piece(const std::string& folder, const checkpoint::LlamaFolder& weights,
                const OwnedPiece& piece, const Tensor& values) {
  values.fill(0.0);
  for (const checkpoint::ElementRun& run : runs_of(piece)) {
    const Tensor part = values.slice(0, {run.local, run.local + run.count});
    weights.read(piece.parameter->name(), run.global, part);
    expect_finite(folder, piece.parameter->name(), run.global, part);
  }
}

}  // namespace

void adopt_model(TrainOptions& options, checkpoint::FileLayer& files) {
  options.settle_heads();
  if (options.init.empty()) return;
  std::error_code unknown;
  if (!std::filesystem::is_directory(options.init, unknown)) {
    throw ConfigError(fmt::format(
        "--init {} is no folder. Give the folder of a model, as Hugging Face's save_pretrained() "
        "writes it.",
        in_quotes(options.init)));
  }
  nn::ModelConfig stored = of_init([&] {
    const nn::ModelConfig found = checkpoint::read_model_config(files, options.init);
    expect_a_model(found, options.init);
    return found;
  });
  expect_no_contradiction(options, stored);
  stored.max_seq_len = std::min(options.model.max_seq_len, stored.max_seq_len);
  stored.mtp = stored.mtp && options.model.mtp;
  stored.head_chunks = options.model.head_chunks;
  stored.latent.absorbed = options.model.latent.absorbed;
  options.model = stored;
}

std::string described(const nn::ModelConfig& model) {
  std::string text = fmt::format(
      "{} layers, hidden {}, {} heads, {} key/value heads, ffn {}, vocabulary {}, rope_theta {}, "
      "norm_epsilon {}, {} embeddings, sequences of {}",
      model.num_layers, model.hidden_size, model.num_heads, model.num_kv_heads,
      model.ffn_hidden_size, model.vocab_size, model.rope_theta, model.norm_epsilon,
      model.tied_embeddings ? "tied" : "untied", model.max_seq_len);
  if (model.head_size > 0) text += fmt::format(", heads of {}", model.head_size);
  if (model.qkv_bias) text += ", biases of queries, keys and values";
  if (model.qk_norm) text += ", norms of queries and keys";
  if (model.sliding_window > 0) text += fmt::format(", a window of {}", model.sliding_window);
  if (model.mtp) text += ", a block for the token after next";
  if (model.latent.on) text += ", " + latent_widths(model.latent);
  if (const auto& scaling = model.rope_scaling) {
    text += fmt::format(", rotations scaled by {} ({}, {}, {})", scaling->factor,
                        scaling->low_frequency_factor, scaling->high_frequency_factor,
                        scaling->original_positions);
  }
  return text;
}

void expect_initial_weights(const std::string& folder, const nn::ModelConfig& model,
                            nn::LayerFactory& factory, const Communicator& world,
                            checkpoint::FileLayer& files) {
  agree(world, [&] {
    of_init([&] {
      const checkpoint::LlamaFolder stored(files, folder);
      stored.expect_sizes(model);
      stored.expect_model(model, nn::named_shapes(model, factory));
    });
  });
}

// [region load_initial_weights]
void load_initial_weights(const std::string& folder, const TrainerState& trainer,
                          const Communicator& world, checkpoint::FileLayer& files) {
  std::optional<checkpoint::LlamaFolder> stored;
  agree(world, [&] {
    of_init([&] {
      stored.emplace(files, folder);
      stored->expect_model(trainer.context.options.model, trainer.parameters);
    });
  });
  const Device& host = trainer.context.device.host();
  agree(world, [&] {
    for (const auto& states : trainer.states) {
      for (std::size_t i = 0; i < states->pieces().size(); ++i) {
        throw_if_interrupted();
        const OwnedPiece& piece = states->pieces()[i];
        const Tensor values = Tensor::empty(host, {piece.elements.size()},
                                            accumulation_dtype(piece.parameter->dtype()));
        of_init([&] { read_piece(folder, *stored, piece, values); });
        states->write_weights(i, values);
      }
    }
  });
  for (const auto& states : trainer.states) states->share_weights();
}
// [/region]

}  // namespace ultra::train
