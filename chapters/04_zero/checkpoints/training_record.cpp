#include "chapters/04_zero/checkpoints/training_record.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "chapters/04_zero/checkpoints/json_numbers.hpp"
#include "common/base/errors.hpp"

namespace ultra::zero {
namespace {

using nlohmann::ordered_json;

constexpr int kFormat = 1;

/// Throws when a value that decides what is trained has changed.
template <class T>
void expect_equal(const T& now, const T& saved, std::string_view flag, const std::string& folder) {
  if (now == saved) return;
  throw ConfigError(
      fmt::format("checkpoint '{}' is of another training: it was written with {} {}, this run has "
                  "{}. Give {} {}, or leave out --resume.",
                  folder, flag, saved, now, flag, saved));
}

ordered_json identity_json(const TrainingIdentity& identity) {
  const nn::ModelConfig& model = identity.model;
  return {{"layers", model.num_layers},
          {"hidden", model.hidden_size},
          {"heads", model.num_heads},
          {"kv_heads", model.num_kv_heads},
          {"ffn", model.ffn_hidden_size},
          {"seq", model.max_seq_len},
          {"vocab", model.vocab_size},
          {"rope_theta", model.rope_theta},
          {"norm_epsilon", model.norm_epsilon},
          {"dtype", to_string(identity.dtype)},
          {"seed", identity.seed},
          {"global_batch", identity.global_batch},
          {"data", identity.data},
          {"data_bytes", identity.data_bytes},
          {"data_hash", identity.data_hash}};
}

DType dtype_from(const ordered_json& json) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    if (json.get<std::string>() == to_string(dtype)) return dtype;
  }
  throw ordered_json::type_error::create(302, "the dtype is " + json.dump(), &json);
}

TrainingIdentity identity_from(const ordered_json& json) {
  TrainingIdentity identity;
  nn::ModelConfig& model = identity.model;
  model.num_layers = whole_number_in<std::size_t>(json, "layers");
  model.hidden_size = whole_number_in<std::size_t>(json, "hidden");
  model.num_heads = whole_number_in<std::size_t>(json, "heads");
  model.num_kv_heads = whole_number_in<std::size_t>(json, "kv_heads");
  model.ffn_hidden_size = whole_number_in<std::size_t>(json, "ffn");
  model.max_seq_len = whole_number_in<std::size_t>(json, "seq");
  model.vocab_size = whole_number_in<std::size_t>(json, "vocab");
  json.at("rope_theta").get_to(model.rope_theta);
  json.at("norm_epsilon").get_to(model.norm_epsilon);
  identity.dtype = dtype_from(json.at("dtype"));
  identity.seed = whole_number_in<std::uint64_t>(json, "seed");
  identity.global_batch = whole_number_in<std::size_t>(json, "global_batch");
  json.at("data").get_to(identity.data);
  identity.data_bytes = whole_number_in<std::size_t>(json, "data_bytes");
  identity.data_hash = whole_number_in<std::uint64_t>(json, "data_hash");
  return identity;
}

ordered_json step_json(const train::StepMetrics& step) {
  return {step.step, step.loss, step.grad_norm, step.learning_rate, step.tokens_per_second};
}

train::StepMetrics step_from(const ordered_json& json) {
  return {.step = json.at(0).get<std::size_t>(),
          .loss = json.at(1),
          .grad_norm = json.at(2),
          .learning_rate = json.at(3),
          .tokens_per_second = json.at(4)};
}

[[noreturn]] void report(const std::string& path, std::string_view what) {
  throw FileError(
      fmt::format("checkpoint file '{}' is damaged: {}. Resume an older checkpoint.", path, what));
}

TrainingRecord record_from(const ordered_json& json, const std::string& path) {
  if (json.at("format") != kFormat) {
    report(path, fmt::format("its format is {}, this program reads {}", json.at("format").dump(),
                             kFormat));
  }
  TrainingRecord record;
  record.identity = identity_from(json.at("training"));
  record.optimizer_steps = whole_number_in<int>(json, "optimizer_steps");
  record.writers = whole_number_in<int>(json, "writers");
  for (const ordered_json& step : json.at("steps")) record.steps.push_back(step_from(step));
  for (std::size_t i = 0; i < record.steps.size(); ++i) {
    if (record.steps[i].step != i + 1) report(path, fmt::format("step {} is missing", i + 1));
  }
  if (record.steps.empty()) report(path, "it has no steps");
  if (record.writers < 1) report(path, fmt::format("it has {} writers", record.writers));
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
  expect_equal(to_string(dtype), to_string(saved.dtype), "--dtype", folder);
  expect_equal(seed, saved.seed, "--seed", folder);
  expect_equal(global_batch, saved.global_batch, "--global-batch", folder);
  if (data_bytes == saved.data_bytes && data_hash == saved.data_hash) return;
  throw ConfigError(
      fmt::format("checkpoint '{}' is of another training: it was trained on {} ({} bytes), this "
                  "run has {} ({} "
                  "bytes), and the texts differ. Give --data the text of the checkpoint, or leave "
                  "out --resume.",
                  folder, saved.data, saved.data_bytes, data, data_bytes));
}

TrainingIdentity identity_of(const train::RunContext& context) {
  const data::Dataset& dataset = context.sampler.dataset();
  return {.model = context.options.model,
          .dtype = context.options.dtype,
          .seed = context.options.seed,
          .global_batch = context.options.global_batch,
          .data = dataset.source(),
          .data_bytes = dataset.size(),
          .data_hash = dataset.hash()};
}

std::string to_json(const TrainingRecord& record) {
  ordered_json steps = ordered_json::array();
  for (const train::StepMetrics& step : record.steps) steps.push_back(step_json(step));
  const ordered_json json = {
      {"format", kFormat},
      {"training", identity_json(record.identity)},
      {"optimizer_steps", record.optimizer_steps},
      {"writers", record.writers},
      {"step_columns", {"step", "loss", "grad_norm", "learning_rate", "tokens_per_second"}},
      {"steps", steps}};
  // A file may have a name that is no UTF-8.
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

TrainingRecord parse_record(const std::string& text, const std::string& path) {
  try {
    return record_from(ordered_json::parse(text), path);
  } catch (const nlohmann::json::exception& error) {
    report(path, error.what());
  }
}

}  // namespace ultra::zero
