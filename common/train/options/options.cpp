#include "common/train/options/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"
#include "common/optim/rules.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::train {
namespace {

/// Bytes above this do not fit a machine, and far above it not the integers that count them.
constexpr double kLargestBytes = 1e14;

/// No model has wider ones.
constexpr std::size_t kWidestLatent = 1U << 20U;

/// More than weights, gradients, moments and activations can be, without overflow.
double bytes_upper_bound(const TrainOptions& options) {
  const auto real = [](std::size_t value) { return static_cast<double>(value); };
  const nn::ModelConfig& model = options.model;
  const double heads =
      real(model.num_heads) * real(std::max(model.head_dim(), model.core_head_dim()));
  const double widths = real(model.hidden_size) + real(model.ffn_hidden_size) + heads;
  const double layers = real(model.num_layers) + 1.0;
  const double vocabulary = 2.0 * real(model.vocab_size);
  const double weights = real(model.hidden_size) * (4.0 * widths * layers + vocabulary);
  const double activations = real(options.micro_batch) * real(model.max_seq_len) *
                             (8.0 * widths * layers + 2.0 * vocabulary);
  const double tokens = real(options.global_batch) * real(model.max_seq_len);
  return (4.0 * weights + activations + tokens) * real(size_of(options.dtype));
}

constexpr const char* kModelFlags[] = {
    "--layers",          "--hidden",   "--heads",    "--kv-heads", "--ffn",    "--seq", "--vocab",
    "--tied-embeddings", "--head-dim", "--qkv-bias", "--qk-norm",  "--window", "--mtp"};

/// A width of latent attention, and the member that it sets.
struct LatentFlag {
  const char* flag;
  std::size_t nn::LatentAttention::*width;
  const char* help;
  std::size_t least;
};
constexpr LatentFlag kLatentFlags[] = {
    {"--kv-lora-rank", &nn::LatentAttention::kv_lora_rank,
     "with --attention mla: width of the latent of keys and values", 1},
    {"--q-lora-rank", &nn::LatentAttention::q_lora_rank, "width of that of queries; 0: none", 0},
    {"--qk-nope-head-dim", &nn::LatentAttention::qk_nope_head_dim,
     "elements of a query or key that are not rotated", 1},
    {"--qk-rope-head-dim", &nn::LatentAttention::qk_rope_head_dim, "elements that are", 1},
    {"--v-head-dim", &nn::LatentAttention::v_head_dim, "elements of a value", 1}};

/// The epsilon of the norms, on latents and elsewhere, in the code beside arXiv 2412.19437.
constexpr double kLatentEpsilon = 1e-6;

void add_latent_flags(CLI::App& app, TrainOptions& options) {
  nn::LatentAttention& latent = options.model.latent;
  const Flags flags(app, "Model");
  flags.add_parsed(
      "--attention",
      [&options](const std::string& text) {
        const auto words = {"gqa", "mla", "mla-absorbed"};
        if (std::ranges::find(words, text) == words.end()) {
          throw ConfigError(fmt::format("--attention is {}, expected gqa, mla or mla-absorbed.",
                                        in_quotes(text)));
        }
        nn::ModelConfig& model = options.model;
        model.latent.on = text != "gqa";
        model.latent.absorbed = text == "mla-absorbed";
        if (model.latent.on) model.norm_epsilon = kLatentEpsilon;
      },
      "gqa (grouped queries), mla (latents: keys and values of all heads from one short vector) or "
      "mla-absorbed (the same model, computed on the latents)",
      "gqa");
  when_given(app, "--attention",
             [&options] { options.given_model_flags.emplace_back("--attention"); });
  for (const auto& [flag, width, help, least] : kLatentFlags) {
    flags.add(flag, latent.*width, help, Counts{.least = least, .most = kWidestLatent});
    when_given(app, flag, [&options, flag] { options.given_model_flags.emplace_back(flag); });
  }
}

data::TokenFormat parse_token_format(const std::string& text) {
  if (text == "u16") return data::TokenFormat::kU16;
  if (text == "u32") return data::TokenFormat::kU32;
  throw ConfigError(fmt::format(
      "--tokens is {}, expected u16 or u32. A text is read without --tokens.", in_quotes(text)));
}

/// A rate or norm that f32 holds.
constexpr double kLargestReal = 1e30;

void expect_device_with(const std::string& matmul, DeviceKind device) {
  if (matmul.empty() || matmul == "tree" || device == DeviceKind::kCuda) return;
  if (device == DeviceKind::kEmulated && matmul == "ours") return;
  throw ConfigError(
      fmt::format("--matmul {} says whose matrix products a GPU computes, and --device is {}, "
                  "which has its own. "
                  "Give --device cuda, or leave --matmul out.",
                  matmul, to_string(device)));
}

}  // namespace

void TrainOptions::add_to(CLI::App& app) {
  const Flags model_flags(app, "Model");
  model_flags.add("--model", model_name,
                  "a published model: its name stands for the flags that describe it");
  model_flags.add("--layers", model.num_layers, "transformer blocks");
  model_flags.add("--hidden", model.hidden_size, "hidden size");
  model_flags.add("--heads", model.num_heads, "query heads; divides --hidden, or see --head-dim");
  model_flags.add("--kv-heads", model.num_kv_heads, "key/value heads; divides --heads");
  model_flags.add("--ffn", model.ffn_hidden_size, "width of the feed-forward part");
  model_flags.add("--seq", model.max_seq_len, "tokens per sequence");
  model_flags.add("--vocab", model.vocab_size, "token ids, from 0 on");
  model_flags.add_switch("--tied-embeddings", model.tied_embeddings,
                         "the token table is the output matrix too");
  model_flags.add("--head-dim", model.head_size, "elements of a head [--hidden / --heads]",
                  Counts{.least = 0}, ShowDefault::kNo);
  model_flags.add_switch("--qkv-bias", model.qkv_bias, "queries, keys and values have biases");
  model_flags.add_switch("--qk-norm", model.qk_norm,
                         "each head of queries and keys is normalised before it is rotated");
  model_flags.add("--window", model.sliding_window,
                  "tokens that each sees, its own the last [all up to its own]", Counts{.least = 0},
                  ShowDefault::kNo);
  model_flags.add_switch("--mtp", model.mtp,
                         "a further block, between the model's own table and head, predicts the "
                         "token after next");
  model_flags.add("--head-chunks", model.head_chunks,
                  "pieces of the tokens in which head and loss are computed", Counts{.least = 1});
  for (const char* flag : kModelFlags) {
    when_given(app, flag, [this, flag] { given_model_flags.emplace_back(flag); });
  }
  add_latent_flags(app, *this);

  const Flags training(app, "Training");
  training.add("--global-batch", global_batch, "sequences per optimizer step", Counts{.least = 1});
  training.add("--micro-batch", micro_batch, "sequences per forward and backward pass",
               Counts{.least = 1});
  training.add("--steps", steps, "optimizer steps", {1, kMostSteps});
  training.add("--lr", learning_rate, "highest learning rate", {0.0, kLargestReal});
  training.add("--warmup", warmup, "steps until the highest learning rate", {0, kMostSteps});
  training.add("--decay", decay,
               "last steps, in which the learning rate falls; before them it stays [a cosine]",
               {1, kMostSteps});
  training.add("--clip", clip_norm, "highest global gradient norm; 0 is no clipping",
               {0.0, kLargestReal});
  training.add_one_of("--optimizer", optimizer, optim::rule_names(),
                      fmt::format("how a step changes the weights [{}]", optim::kDefaultRule));
  training.add("--freeze", freeze,
               "parameters that are not trained, by parts of their names: model.layers.0. or "
               "embed_tokens");
  training.add("--mtp-weight", mtp_weight,
               "with --mtp: weight of the loss of the tokens after next", {0.0, kLargestReal});
  training.add("--head-z-loss", head_z_loss,
               "weight of the squared log-sum-exp of each token's logits in the loss",
               {0.0, kLargestReal});
  when_given(app, "--mtp-weight", [this] { mtp_weight_given = true; });
  training.add("--seed", seed, "seed of weights and data order");
  training.add_parsed(
      "--dtype",
      [this](const std::string& text) {
        dtype = under_flag("--dtype", "dtype", [&] { return parse_float_dtype(text); });
        dtype_given = true;
      },
      "f32 or f64", "f32");
  training.add_parsed(
      "--device",
      [this](const std::string& text) {
        device = under_flag("--device", "device", [&] { return parse_device_kind(text); });
      },
      "cpu, cuda (a GPU) or emulated (a GPU that the CPU plays)", "cpu");
  training.add_one_of("--matmul", matmul, {"vendor", "ours"},
                      "matrix products of a GPU: cuBLASLt's, or the workbook's own kernels "
                      "[vendor, where it is installed]");
  training.add_parsed(
      "--device-memory", [this](const std::string& text) { device_memory = parse_bytes(text); },
      "what the tensors of a rank may take, for example 64MB [all there is]");

  const Flags files(app, "Files");
  files.add(
      "--init", init,
      "start from the weights of this folder: a model of Hugging Face's, which says its sizes");
  files.add("--data", data, "any text file [the workbook's own text]");
  files.add_parsed(
      "--tokens", [this](const std::string& text) { tokens = parse_token_format(text); },
      "--data and --val-data are files of token ids, as nanoGPT and llm.c write them: u16 or u32");
  files.add("--mask", mask,
            "a byte for each token of --data: 1 for one that is learnt, 0 for one without a loss");
  files.add("--val-data", val_data, "a text to validate on, which is not trained on");
  files.add("--val-every", val_every, "validate after so many steps, and at the end [the end]",
            Counts{.least = 1}, ShowDefault::kNo);
  files.add("--val-batches", val_batches, "global batches of a validation", Counts{.least = 1});
  when_given(app, "--val-every", [this] { given_validation_flag = "--val-every"; });
  when_given(app, "--val-batches", [this] { given_validation_flag = "--val-batches"; });
  files.add("--metrics", metrics, "write one JSON line per step, and a summary");
  files.add("--trace", trace, "write a timeline that ui.perfetto.dev opens");
  files.add("--trace-steps", trace_steps, "steps that the timeline covers", {0, kMostSteps});
  Flags(app, "").add_switch("--print-ranks", print_ranks,
                            "print how many ranks these flags need, and stop");
}

void TrainOptions::settle_heads() {
  const auto given = [&](std::string_view flag) {
    return std::ranges::find(given_model_flags, flag) != given_model_flags.end();
  };
  if (model.latent.on) {
    if (!given("--kv-heads")) model.num_kv_heads = model.num_heads;
    return;
  }
  for (const auto& [flag, width, help, least] : kLatentFlags) {
    if (!given(flag)) continue;
    throw ConfigError(fmt::format(
        "{} has no meaning without --attention mla, which makes keys and values from latents. Give "
        "both, or leave {} out.",
        flag, flag));
  }
}

void TrainOptions::validate() const {
  model.validate();
  if (tokens != data::TokenFormat::kBytes && data.empty()) {
    throw ConfigError(
        "--tokens says how --data holds its tokens, and the workbook's own text is a text. Give "
        "--data FILE, or leave --tokens out.");
  }
  if (!given_validation_flag.empty() && val_data.empty()) {
    throw ConfigError(
        fmt::format("{} has no meaning without --val-data FILE, the text to validate on.",
                    given_validation_flag));
  }
  expect_device_with(matmul, device);
  if (head_z_loss > 0 && (is_recorded || has_streams(device))) {
    throw ConfigError(
        "--head-z-loss is the CPU's alone: the kernels of a GPU (--device cuda or emulated, --on) "
        "have no such term. Use --device cpu, or leave --head-z-loss out.");
  }
  if (mtp_weight_given && !model.mtp) {
    throw ConfigError(
        "--mtp-weight has no meaning without --mtp, the block that predicts the token after next. "
        "Give both, or leave --mtp-weight out.");
  }
  if (model.mtp && mtp_weight <= 0) {
    throw ConfigError(
        "--mtp-weight is 0, and a loss without a weight trains nothing. Give a number above 0, or "
        "leave --mtp out.");
  }
  if (decay && warmup + *decay > steps) {
    throw ConfigError(
        fmt::format("--warmup and --decay take {} + {} steps, and --steps is {}. Choose fewer, or "
                    "more --steps.",
                    warmup, *decay, steps));
  }
  if (global_batch % micro_batch != 0) {
    throw ConfigError(fmt::format(
        "--micro-batch must divide --global-batch: {} % {} = {}. Choose a divisor of {}.",
        global_batch, micro_batch, global_batch % micro_batch, global_batch));
  }
  if (!is_recorded && bytes_upper_bound(*this) > kLargestBytes) {
    if (!init.empty()) {
      throw ConfigError(fmt::format(
          "the model of --init {} and this batch can take more than 100 TB, by the sizes in its "
          "config.json ({} layers, hidden_size {}, intermediate_size {}, vocab_size {}). Choose a "
          "smaller --seq, --micro-batch or --global-batch, or another model.",
          in_quotes(init), model.num_layers, model.hidden_size, model.ffn_hidden_size,
          model.vocab_size));
    }
    throw ConfigError(
        "this model and batch can take more than 100 TB. Choose smaller --layers, --hidden, --ffn, "
        "--vocab, --seq, --micro-batch or --global-batch.");
  }
}

std::vector<FileFlag> TrainOptions::files() const {
  std::vector<FileFlag> named;
  const auto add = [&](const char* flag, const std::string& path, FileUse use) {
    if (!path.empty()) named.push_back({flag, path, use});
  };
  add("--init", init, FileUse::kRead);
  add("--data", data, FileUse::kRead);
  add("--mask", mask, FileUse::kRead);
  add("--val-data", val_data, FileUse::kRead);
  add("--metrics", metrics, FileUse::kWritten);
  add("--trace", trace, FileUse::kWritten);
  return named;
}

}  // namespace ultra::train
