#include "chapters/04_zero/checkpoints/training_record.hpp"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <string_view>

#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/checkpoint/files/file_damage.hpp"
#include "common/checkpoint/json_file.hpp"

namespace ultra::zero {
namespace {

using checkpoint::report_damaged_checkpoint;
using checkpoint::whole_number_in;

constexpr int kFormat = 2;

/// Of each step; behind them stand the losses of a validation, and of the tokens after next, if any.
constexpr std::size_t kStepColumns = 5;

/// Of JSON: more than most steps take.
constexpr std::size_t kBytesPerStep = 96;

/// Throws when a value that decides what is trained has changed.
template <class T>
void expect_equal(const T& now, const T& saved, std::string_view flag, const std::string& folder) {
  if (now == saved) return;
  throw ConfigError(
      fmt::format("checkpoint '{}' is of another training: it was written with {} {}, this run has "
                  "{}. Give {} {}, or leave out --resume.",
                  folder, flag, saved, now, flag, saved));
}

/// The same for what no flag changes.
template <class T>
void expect_equal_constant(const T& now, const T& saved, std::string_view name,
                           const std::string& folder) {
  if (now == saved) return;
  throw ConfigError(
      fmt::format("checkpoint '{}' is of another training: its model has {} {}, this program's has "
                  "{}. Give the --init (or --vocab, --tied-embeddings, --head-dim, --qkv-bias, "
                  "--qk-norm, --window, --attention, --mtp) that it "
                  "was started with, or leave out "
                  "--resume.",
                  folder, name, saved, now));
}

/// A flag as messages show it: "--top-k 2", or "no --top-k".
std::string shown_flag(const train::Identity& flags, const std::string& flag) {
  const auto found = flags.find(flag);
  return found == flags.end() ? "no " + flag : fmt::format("{} {}", flag, found->second);
}

/// The same for flags that not every program has.
void expect_equal_flags(const train::Identity& now, const train::Identity& saved,
                        const std::string& folder) {
  train::Identity all = now;
  all.insert(saved.begin(), saved.end());
  for (const auto& [flag, value] : all) {
    const std::string here = shown_flag(now, flag);
    const std::string there = shown_flag(saved, flag);
    if (here == there) continue;
    throw ConfigError(
        fmt::format("checkpoint '{}' is of another training: it was written with {}, this run has "
                    "{}. Give what it was written with, or leave out --resume.",
                    folder, there, here));
  }
}

/// Empty for a training in one type, which its --dtype says.
std::string precision_text(const train::TrainOptions& options) {
  if (!options.precision) return {};
  const nn::Precision& types = *options.precision;
  return fmt::format("weights {}, gradients {}, activations {}, updated {}",
                     to_string(types.parameters), to_string(types.gradients),
                     to_string(types.compute), to_string(types.optimizer));
}

std::string shown_precision(const std::string& text) {
  return text.empty() ? "everything in one type" : text;
}

/// What not every model has; older programs wrote files without.
void write_options(const nn::ModelConfig& model, Json& object) {
  if (model.head_size > 0) object["head_dim"] = model.head_size;
  if (model.qkv_bias) object["qkv_bias"] = true;
  if (model.qk_norm) object["qk_norm"] = true;
  if (model.sliding_window > 0) object["window"] = model.sliding_window;
  if (model.mtp) object["mtp"] = true;
  if (const nn::LatentAttention& latent = model.latent; latent.on) {
    object["latent"] = {latent.kv_lora_rank, latent.q_lora_rank, latent.qk_nope_head_dim,
                        latent.qk_rope_head_dim, latent.v_head_dim};
  }
  if (const auto& scaling = model.rope_scaling) {
    object["rope_scaling"] = {scaling->factor, scaling->low_frequency_factor,
                              scaling->high_frequency_factor, scaling->original_positions};
  }
}

void read_options(const Json& object, nn::ModelConfig& model) {
  if (object.contains("head_dim")) {
    model.head_size = whole_number_in<std::size_t>(object, "head_dim");
  }
  if (object.contains("qkv_bias")) object.at("qkv_bias").get_to(model.qkv_bias);
  if (object.contains("qk_norm")) object.at("qk_norm").get_to(model.qk_norm);
  if (object.contains("window")) {
    model.sliding_window = whole_number_in<std::size_t>(object, "window");
  }
  if (object.contains("mtp")) object.at("mtp").get_to(model.mtp);
  if (const Json* latent = object.find("latent")) {
    model.latent = {.on = true,
                    .kv_lora_rank = latent->at(0).get<std::size_t>(),
                    .q_lora_rank = latent->at(1).get<std::size_t>(),
                    .qk_nope_head_dim = latent->at(2).get<std::size_t>(),
                    .qk_rope_head_dim = latent->at(3).get<std::size_t>(),
                    .v_head_dim = latent->at(4).get<std::size_t>()};
  }
  if (const Json* scaling = object.find("rope_scaling")) {
    model.rope_scaling = {.factor = scaling->at(0).get<double>(),
                          .low_frequency_factor = scaling->at(1).get<double>(),
                          .high_frequency_factor = scaling->at(2).get<double>(),
                          .original_positions = scaling->at(3).get<std::size_t>()};
  }
}

std::string shown_scaling(const std::optional<ops::RopeScaling>& scaling) {
  if (!scaling) return "none";
  return fmt::format("{} ({}, {}, {})", scaling->factor, scaling->low_frequency_factor,
                     scaling->high_frequency_factor, scaling->original_positions);
}

/// Either form computes the same model.
std::string shown_latent(const nn::LatentAttention& latent) {
  if (!latent.on) return "none";
  return fmt::format("{} and {} for heads of {} + {} and {}", latent.kv_lora_rank,
                     latent.q_lora_rank, latent.qk_nope_head_dim, latent.qk_rope_head_dim,
                     latent.v_head_dim);
}

Json identity_json(const TrainingIdentity& identity) {
  const nn::ModelConfig& model = identity.model;
  Json object = {{"layers", model.num_layers},
                 {"hidden", model.hidden_size},
                 {"heads", model.num_heads},
                 {"kv_heads", model.num_kv_heads},
                 {"ffn", model.ffn_hidden_size},
                 {"seq", model.max_seq_len},
                 {"vocab", model.vocab_size},
                 {"rope_theta", model.rope_theta},
                 {"norm_epsilon", model.norm_epsilon},
                 {"tied_embeddings", model.tied_embeddings},
                 {"dtype", to_string(identity.dtype)},
                 {"seed", identity.seed},
                 {"global_batch", identity.global_batch},
                 {"data", identity.data},
                 {"data_bytes", identity.data_bytes},
                 {"data_hash", identity.data_hash}};
  write_options(model, object);
  if (identity.doc_length > 0) object["doc_length"] = identity.doc_length;
  if (!identity.flags.empty()) object["variant"] = identity.flags;
  return object;
}

Json settings_json(const TrainingSettings& settings) {
  Json object = {{"steps", settings.steps},
                 {"lr", settings.learning_rate},
                 {"warmup", settings.warmup},
                 {"clip", settings.clip_norm},
                 {"micro_batch", settings.micro_batch}};
  if (settings.decay > 0) object["decay"] = settings.decay;
  if (settings.mtp_weight > 0) object["mtp_weight"] = settings.mtp_weight;
  if (settings.head_z_loss > 0) object["head_z_loss"] = settings.head_z_loss;
  if (!settings.precision.empty()) object["precision"] = settings.precision;
  return object;
}

DType dtype_from(const Json& object) {
  const Json& name = object.at("dtype");
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    if (name == to_string(dtype)) return dtype;
  }
  throw JsonError(fmt::format("the dtype is {}", checkpoint::shown_json(name)));
}

TrainingIdentity identity_from(const Json& object) {
  TrainingIdentity identity;
  nn::ModelConfig& model = identity.model;
  model.num_layers = whole_number_in<std::size_t>(object, "layers");
  model.hidden_size = whole_number_in<std::size_t>(object, "hidden");
  model.num_heads = whole_number_in<std::size_t>(object, "heads");
  model.num_kv_heads = whole_number_in<std::size_t>(object, "kv_heads");
  model.ffn_hidden_size = whole_number_in<std::size_t>(object, "ffn");
  model.max_seq_len = whole_number_in<std::size_t>(object, "seq");
  model.vocab_size = whole_number_in<std::size_t>(object, "vocab");
  object.at("rope_theta").get_to(model.rope_theta);
  object.at("norm_epsilon").get_to(model.norm_epsilon);
  object.at("tied_embeddings").get_to(model.tied_embeddings);
  read_options(object, model);
  identity.dtype = dtype_from(object);
  identity.seed = whole_number_in<std::uint64_t>(object, "seed");
  identity.global_batch = whole_number_in<std::size_t>(object, "global_batch");
  if (object.contains("doc_length")) {
    identity.doc_length = whole_number_in<std::size_t>(object, "doc_length");
  }
  if (object.contains("variant")) object.at("variant").get_to(identity.flags);
  object.at("data").get_to(identity.data);
  identity.data_bytes = whole_number_in<std::size_t>(object, "data_bytes");
  identity.data_hash = whole_number_in<std::uint64_t>(object, "data_hash");
  return identity;
}

TrainingSettings settings_from(const Json& object) {
  TrainingSettings settings{.steps = whole_number_in<std::size_t>(object, "steps"),
                            .learning_rate = object.at("lr").get<double>(),
                            .warmup = whole_number_in<std::size_t>(object, "warmup"),
                            .clip_norm = object.at("clip").get<double>(),
                            .micro_batch = whole_number_in<std::size_t>(object, "micro_batch")};
  if (object.contains("decay")) settings.decay = whole_number_in<std::size_t>(object, "decay");
  if (object.contains("mtp_weight")) object.at("mtp_weight").get_to(settings.mtp_weight);
  if (object.contains("head_z_loss")) object.at("head_z_loss").get_to(settings.head_z_loss);
  if (object.contains("precision")) object.at("precision").get_to(settings.precision);
  return settings;
}

Json step_json(const train::StepMetrics& step) {
  Json row = {step.step, step.loss, step.grad_norm, step.learning_rate, step.tokens_per_second};
  if (step.validation_loss) row.push_back(*step.validation_loss);
  if (step.next_loss && !step.validation_loss) row.push_back(nullptr);
  if (step.next_loss) row.push_back(*step.next_loss);
  return row;
}

/// JSON has no infinity, which is the norm of a step that was skipped.
double number_or_infinity(const Json& number) {
  return number.is_null() ? std::numeric_limits<double>::infinity() : number.get<double>();
}

train::StepMetrics step_from(const Json& step) {
  train::StepMetrics metrics{.step = step.at(0).get<std::size_t>(),
                             .loss = step.at(1).get<double>(),
                             .grad_norm = number_or_infinity(step.at(2)),
                             .learning_rate = step.at(3).get<double>(),
                             .tokens_per_second = step.at(4).get<double>()};
  const auto optional = [&](std::size_t column) -> std::optional<double> {
    if (step.size() <= column || step.at(column).is_null()) return {};
    return step.at(column).get<double>();
  };
  metrics.validation_loss = optional(kStepColumns);
  metrics.next_loss = optional(kStepColumns + 1);
  return metrics;
}

void expect_format(const Json& record, const std::string& path) {
  const Json& format = record.at("format");
  if (format == kFormat) return;
  if (!format.is_whole()) {
    report_damaged_checkpoint(path,
                              fmt::format("its format is {}", checkpoint::shown_json(format)));
  }
  throw FileError(fmt::format(
      "checkpoint file '{}': its format is {}, this program reads {}. Another version of this "
      "program has written it: resume with that one, or leave out --resume.",
      path, format.get<std::uint64_t>(), kFormat));
}

TrainingRecord record_from(const Json& object, const std::string& path) {
  expect_format(object, path);
  TrainingRecord record;
  record.identity = identity_from(object.at("training"));
  record.settings = settings_from(object.at("settings"));
  record.optimizer_steps = whole_number_in<int>(object, "optimizer_steps");
  record.writers = whole_number_in<int>(object, "writers");
  if (object.contains("numbers")) object.at("numbers").get_to(record.numbers);
  for (const Json& step : object.at("steps").elements()) record.steps.push_back(step_from(step));
  const auto report = [&](const std::string& what) { report_damaged_checkpoint(path, what); };
  for (std::size_t i = 0; i < record.steps.size(); ++i) {
    if (record.steps[i].step != i + 1) report(fmt::format("step {} is missing", i + 1));
  }
  if (record.steps.empty()) report("it has no steps");
  if (record.writers < 1) report(fmt::format("it has {} writers", record.writers));
  return record;
}

}  // namespace

void TrainingIdentity::expect_same(const TrainingIdentity& saved, const std::string& folder) const {
  expect_equal(model.num_layers, saved.model.num_layers, "--layers", folder);
  expect_equal(model.hidden_size, saved.model.hidden_size, "--hidden", folder);
  expect_equal(model.num_heads, saved.model.num_heads, "--heads", folder);
  expect_equal(model.num_kv_heads, saved.model.num_kv_heads, "--kv-heads", folder);
  expect_equal(model.ffn_hidden_size, saved.model.ffn_hidden_size, "--ffn", folder);
  expect_equal(model.max_seq_len, saved.model.max_seq_len, "--seq", folder);
  expect_equal_constant(model.vocab_size, saved.model.vocab_size, "vocab_size", folder);
  expect_equal_constant(model.rope_theta, saved.model.rope_theta, "rope_theta", folder);
  expect_equal_constant(model.norm_epsilon, saved.model.norm_epsilon, "norm_epsilon", folder);
  expect_equal_constant(model.tied_embeddings, saved.model.tied_embeddings, "tied_embeddings",
                        folder);
  expect_equal_constant(shown_latent(model.latent), shown_latent(saved.model.latent), "latents",
                        folder);
  expect_equal_constant(model.head_dim(), saved.model.head_dim(), "head_dim", folder);
  expect_equal_constant(model.qkv_bias, saved.model.qkv_bias, "qkv_bias", folder);
  expect_equal_constant(model.qk_norm, saved.model.qk_norm, "qk_norm", folder);
  expect_equal(model.sliding_window, saved.model.sliding_window, "--window", folder);
  expect_equal_constant(model.mtp, saved.model.mtp, "mtp", folder);
  expect_equal_constant(shown_scaling(model.rope_scaling), shown_scaling(saved.model.rope_scaling),
                        "rope_scaling", folder);
  expect_equal(to_string(dtype), to_string(saved.dtype), "--dtype", folder);
  expect_equal(seed, saved.seed, "--seed", folder);
  expect_equal(global_batch, saved.global_batch, "--global-batch", folder);
  expect_equal(doc_length, saved.doc_length, "--doc-length", folder);
  expect_equal_flags(flags, saved.flags, folder);
  if (data_bytes == saved.data_bytes && data_hash == saved.data_hash) return;
  throw ConfigError(
      fmt::format("checkpoint '{}' is of another training: it was trained on {} ({} bytes), this "
                  "run has {} ({} "
                  "bytes), and the texts differ. Give --data the text of the checkpoint and "
                  "--mask its mask, or leave out --resume.",
                  folder, saved.data, saved.data_bytes, data, data_bytes));
}

std::vector<std::string> TrainingSettings::changes_since(const TrainingSettings& saved) const {
  std::vector<std::string> lines;
  const auto compare = [&](std::string_view flag, auto now, auto before, std::string_view so = "") {
    if (now == before) return;
    lines.push_back(
        fmt::format("Resumed with {} {}; the checkpoint's run had {}{}.", flag, now, before, so));
  };
  compare("--steps", steps, saved.steps, ": the learning rate now falls until the new last step");
  compare("--lr", learning_rate, saved.learning_rate);
  compare("--warmup", warmup, saved.warmup);
  const auto shown = [](std::size_t count) { return count > 0 ? fmt::to_string(count) : "none"; };
  compare("--decay", shown(decay), shown(saved.decay));
  compare("--clip", clip_norm, saved.clip_norm);
  compare("--micro-batch", micro_batch, saved.micro_batch);
  compare("--mtp-weight", mtp_weight, saved.mtp_weight);
  compare("--head-z-loss", head_z_loss, saved.head_z_loss);
  if (precision != saved.precision) {
    lines.push_back(fmt::format(
        "Resumed with {}; the checkpoint's run had {}: weights and moments in files are those that "
        "the optimizer updates, and go on as they are, rounded where this run has fewer bits.",
        shown_precision(precision), shown_precision(saved.precision)));
  }
  return lines;
}

TrainingSettings settings_of(const train::TrainOptions& options) {
  return {.steps = options.steps,
          .learning_rate = options.learning_rate,
          .warmup = options.warmup,
          .decay = options.decay.value_or(0),
          .clip_norm = options.clip_norm,
          .micro_batch = options.micro_batch,
          .mtp_weight = options.model.mtp ? options.mtp_weight : 0.0,
          .head_z_loss = options.head_z_loss,
          .precision = precision_text(options)};
}

TrainingIdentity identity_of(const train::RunContext& context, const train::Identity& flags) {
  const data::Dataset& dataset = context.sampler.dataset();
  return {.model = context.options.model,
          .dtype = context.options.dtype,
          .seed = context.options.seed,
          .global_batch = context.options.global_batch,
          .doc_length = context.options.doc_length,
          .flags = flags,
          .data = dataset.source(),
          .data_bytes = dataset.size(),
          .data_hash = dataset.hash()};
}

std::string to_json(const TrainingRecord& record) {
  Json head = {
      {"format", kFormat},
      {"training", identity_json(record.identity)},
      {"settings", settings_json(record.settings)},
      {"optimizer_steps", record.optimizer_steps},
      {"writers", record.writers},
      {"step_columns", {"step", "loss", "grad_norm", "learning_rate", "tokens_per_second"}}};
  if (!record.numbers.empty()) head["numbers"] = record.numbers;
  // A file may have a name that is no UTF-8.
  std::string text = head.dump(1, JsonLetters::kReplaced);
  text.resize(text.rfind('}') - 1);
  text += ",\n \"steps\": [";
  // Step by step: a tree of all of them would take far more memory than the text.
  text.reserve(text.size() + kBytesPerStep * record.steps.size());
  std::string_view separator = "\n  ";
  for (const train::StepMetrics& step : record.steps) {
    text.append(separator).append(step_json(step).dump());
    separator = ",\n  ";
  }
  text += "\n ]\n}\n";
  return text;
}

TrainingRecord parse_record(const std::string& text, const std::string& path) {
  return checkpoint::read_json(text, path,
                               [&](const Json& object) { return record_from(object, path); });
}

}  // namespace ultra::zero
