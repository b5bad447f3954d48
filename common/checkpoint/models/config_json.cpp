#include "common/checkpoint/models/config_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/checkpoint/files/file_damage.hpp"
#include "common/checkpoint/json_file.hpp"

namespace ultra::checkpoint {
namespace {

constexpr const char* kType = "model_type";
constexpr const char* kScaled = "llama3";  // a rope_type that other families have too

/// Modules that predict tokens behind the next one, in configurations like DeepSeek-V3's.
constexpr const char* kFurther = "num_nextn_predict_layers";

/// Members that say why a mixture is none of the published ones; older programs wrote the second.
constexpr const char* kReasons[] = {"no_published_mixture_because", "not_mixtral_because"};

const ModelFamily* family_named(const Json& type) {
  const auto families = model_families();
  const auto found = std::ranges::find_if(
      families, [&](const ModelFamily* family) { return type == Json(family->type); });
  return found == families.end() ? nullptr : *found;
}

const ModelFamily& family_in(const HubConfig& config) {
  const Json& type = config.json().at(kType);
  const ModelFamily* family = family_named(type);
  if (family == nullptr) {
    std::string known;
    for (const ModelFamily* each : model_families()) {
      known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", each->type);
    }
    config.refuse(fmt::format("has model_type {}, which this program does not know. It reads {}.",
                              shown_json(type), known));
  }
  config.expect("architectures", Json::array({family->architecture}));
  return *family;
}

/// Refuses what no model of ours has, whatever its family.
void expect_our_features(const HubConfig& config) {
  config.expect("hidden_act", "silu");
  config.expect("attention_dropout", 0.0);
  config.expect("partial_rotary_factor", 1.0);
  const Json quantized = config.member("quantization_config");
  if (!quantized.is_null()) config.expect("quantization_config", nullptr);
}

ops::RopeScaling scaling_from(const Json& rope, const HubConfig& config, const char* name) {
  const auto number = [&](const char* key) { return member_in<double>(rope, key, "a number"); };
  const ops::RopeScaling scaling{
      .factor = number("factor"),
      .low_frequency_factor = number("low_freq_factor"),
      .high_frequency_factor = number("high_freq_factor"),
      .original_positions = whole_number_in<std::size_t>(rope, "original_max_position_embeddings")};
  if (scaling.factor > 0 && scaling.low_frequency_factor > 0 && scaling.original_positions > 0 &&
      scaling.high_frequency_factor > scaling.low_frequency_factor) {
    return scaling;
  }
  config.refuse(
      fmt::format("has {0} {1}, expected a factor, a low_freq_factor and "
                  "original_max_position_embeddings above "
                  "0, and a high_freq_factor above the low one. Take another copy of the model.",
                  name, shown_json(rope)));
}

/// How positions are rotated: transformers 5 says it in rope_parameters.
void read_positions(const HubConfig& config, const ModelFamily& family, nn::ModelConfig& model) {
  model.rope_theta = family.default_rope_theta;
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const Json rope = config.member(name);
    config.expect(fmt::format("{}.partial_rotary_factor", name),
                  member_or_null(rope, "partial_rotary_factor"), 1.0);
    for (const char* key : {"rope_type", "type"}) {
      const Json type = member_or_null(rope, key);
      if (type == Json(kScaled)) {
        model.rope_scaling = scaling_from(rope, config, name);
      } else {
        config.expect(fmt::format("{}.{}", name, key), type, "default");
      }
    }
    if (!member_or_null(rope, "rope_theta").is_null()) {
      model.rope_theta = member_in<double>(rope, "rope_theta", "a number");
    }
  }
  if (config.json().contains("rope_theta")) {
    model.rope_theta = member_in<double>(config.json(), "rope_theta", "a number");
  }
}

/// Refuses heads of which nothing says how wide they are.
void expect_width_of_heads(const nn::ModelConfig& model, const HubConfig& config) {
  if (model.latent.on || model.head_size > 0 || model.num_heads <= model.hidden_size) return;
  config.refuse(
      fmt::format("has no head_dim, and more num_attention_heads, {}, than its hidden_size, {}: "
                  "nothing says how wide a head is. Take another copy of the model.",
                  model.num_heads, model.hidden_size));
}

/// Refuses numbers with which no loss is finite, whatever the weights are.
void expect_numbers_to_train_with(const nn::ModelConfig& model, const HubConfig& config) {
  // Frequencies of positions are powers of 1 / theta.
  const double fastest = static_cast<double>(model.max_seq_len) / model.rope_theta;
  if (!(model.rope_theta > 0) || !std::isfinite(fastest)) {
    config.refuse(fmt::format(
        "has rope_theta {}, expected a number above 0 (10000 in many models): it is the "
        "base of the rotary frequencies. Take another copy of the model.",
        model.rope_theta));
  }
  if (!(model.norm_epsilon >= 0)) {
    config.refuse(fmt::format(
        "has rms_norm_eps {}, expected 0 or a little more (1e-05 in many models): a norm "
        "adds it before it takes a square root. Take another copy of the model.",
        model.norm_epsilon));
  }
}

nn::ModelConfig model_from(const HubConfig& config) {
  const ModelFamily& family = family_in(config);
  expect_our_features(config);
  nn::ModelConfig model;
  model.hidden_size = config.size("hidden_size");
  model.ffn_hidden_size = config.size("intermediate_size");
  model.num_layers = config.size("num_hidden_layers");
  model.num_heads = config.size("num_attention_heads");
  model.num_kv_heads = config.size_or("num_key_value_heads", model.num_heads);
  model.vocab_size = config.size("vocab_size");
  model.max_seq_len = config.size("max_position_embeddings");
  const std::size_t head_dim = config.size_or("head_dim", 0);
  if (head_dim * model.num_heads != model.hidden_size) model.head_size = head_dim;
  model.norm_epsilon = member_in<double>(config.json(), "rms_norm_eps", "a number");
  read_positions(config, family, model);
  expect_numbers_to_train_with(model, config);
  const bool says_tied = !config.member("tie_word_embeddings").is_null();
  model.tied_embeddings =
      says_tied && member_in<bool>(config.json(), "tie_word_embeddings", "true or false");
  if (const Json further = config.member(kFurther); !further.is_null() && !(further == Json(0))) {
    config.expect(kFurther, 1);
    model.mtp = true;
  }
  family.read(config, model);
  expect_width_of_heads(model, config);
  if (const Json types = config.member("layer_types"); types.is_array()) {
    const char* ours = model.sliding_window > 0 ? "sliding_attention" : "full_attention";
    for (const Json& type : types.elements()) config.expect("layer_types", type, ours);
  }
  return model;
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "float64";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    default:
      return "float32";
  }
}

void write_family(const ModelFamily& family, const nn::ModelConfig& model, Json& config) {
  config["architectures"] = {family.architecture};
  config[kType] = family.type;
  family.write(model, config);
  if (model.mtp) config[kFurther] = 1;
}

}  // namespace

std::string model_config_json(const nn::ModelConfig& model, DType dtype) {
  Json config = {{"architectures", Json::array()},
                 {kType, ""},
                 {"hidden_size", model.hidden_size},
                 {"intermediate_size", model.ffn_hidden_size},
                 {"num_hidden_layers", model.num_layers},
                 {"num_attention_heads", model.num_heads},
                 {"num_key_value_heads", model.num_kv_heads},
                 {"vocab_size", model.vocab_size},
                 {"max_position_embeddings", model.max_seq_len},
                 {"rope_theta", model.rope_theta},
                 {"rms_norm_eps", model.norm_epsilon},
                 {"hidden_act", "silu"},
                 {"tie_word_embeddings", model.tied_embeddings},
                 {"bos_token_id", nullptr},
                 {"eos_token_id", nullptr},
                 {"torch_dtype", name_of(dtype)}};
  if (const auto& scaling = model.rope_scaling) {
    config["rope_scaling"] = {{"rope_type", kScaled},
                              {"factor", scaling->factor},
                              {"low_freq_factor", scaling->low_frequency_factor},
                              {"high_freq_factor", scaling->high_frequency_factor},
                              {"original_max_position_embeddings", scaling->original_positions}};
  }
  write_family(family_of(model, false), model, config);
  return config.dump(2) + "\n";
}

nn::ModelConfig parse_model_config(const std::string& text, const std::string& path) {
  try {
    const Json json = parse_json(text, path, FileOf::kModel);
    return model_from(HubConfig(json, path));
  } catch (const JsonError& error) {
    throw FileError(fmt::format("'{}' does not say the sizes of a model as config.json does: {}.",
                                path, error.what()));
  }
}

std::string config_with_dtype(const std::string& text, DType dtype, const std::string& path) {
  Json config = parse_object(text, path);
  for (const char* name : {"torch_dtype", "dtype"}) {
    if (config.contains(name)) config[name] = name_of(dtype);
  }
  return config.dump(2) + "\n";
}

std::string config_with_mixture(const std::string& text, const MixtureConfig& mixture,
                                const std::string& path) {
  const nn::ModelConfig model = parse_model_config(text, path);
  Json config = parse_object(text, path);
  for (const char* reason : kReasons) config.erase(reason);
  for (const char* of_dense : {"attention_bias", "mlp_bias"}) config.erase(of_dense);
  MixtureConfig written = mixture;
  const ModelFamily* family = &family_of(model, true);
  if (!written.unlike_published.empty()) family = &kOwnMixture;
  if (family == &kOwnMixture && written.unlike_published.empty()) {
    written.unlike_published = "its queries, keys and values have biases";
  }
  write_family(*family, model, config);
  family->experts.write(written, config);
  return config.dump(2) + "\n";
}

std::optional<StoredMixture> parse_mixture(const std::string& text, const std::string& path) {
  return read_json(
      text, path,
      [](const Json& config) -> std::optional<StoredMixture> {
        const ModelFamily* family = family_named(config.at(kType));
        if (family == nullptr || family->experts.write == nullptr) return {};
        const auto& [names, hub, other, write] = family->experts;
        const char* count = other != nullptr && !config.contains(hub) ? other : hub;
        return StoredMixture{.is_published = family != &kOwnMixture,
                             .experts = whole_number_in<std::size_t>(config, count),
                             .count = count,
                             .top_k = whole_number_in<std::size_t>(config, "num_experts_per_tok")};
      },
      FileOf::kModel);
}

}  // namespace ultra::checkpoint
