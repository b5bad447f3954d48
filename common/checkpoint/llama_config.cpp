#include "common/checkpoint/llama_config.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/checkpoint/files/file_damage.hpp"
#include "common/checkpoint/json_file.hpp"
#include "common/checkpoint/mixture_config.hpp"

namespace ultra::checkpoint {
namespace {

constexpr const char* kModelType = "llama";

/// Models of config.json that this program can have: model_type, architecture.
constexpr std::pair<const char*, const char*> kModels[] = {
    {kModelType, "LlamaForCausalLM"},
    {kMixtralType, kMixtralArchitecture},
    {kOwnMixtureType, kOwnMixtureArchitecture}};

std::size_t size_in(const Json& config, const char* name) {
  const auto size = whole_number_in<std::size_t>(config, name);
  if (size > 0) return size;
  throw JsonError(fmt::format("'{}' is 0", name));
}

/// The member of an object; null when there is none.
Json member(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found == nullptr ? Json() : *found;
}

/// Refuses a model that has what this program's lacks.
class Features {
 public:
  Features(const Json& config, const std::string& path) : config_(config), path_(path) {}

  /// A member that is missing or null is as we have it.
  void expect(const char* name, const Json& ours) const {
    expect(name, member(config_, name), ours);
  }

  void expect(const std::string& name, const Json& found, const Json& ours) const {
    if (found.is_null() || found == ours) return;
    throw FileError(
        fmt::format("'{}' has {} {}, and this program's model has {} only. Choose a model without "
                    "it.",
                    path_, name, shown_json(found), shown_json(ours)));
  }

  /// Positions are rotated by one rule: transformers 5 says it in rope_parameters.
  void expect_plain_positions() const {
    for (const char* name : {"rope_scaling", "rope_parameters"}) {
      const Json rope = member(config_, name);
      for (const char* type : {"rope_type", "type"}) {
        expect(fmt::format("{}.{}", name, type), member(rope, type), "default");
      }
      expect(fmt::format("{}.partial_rotary_factor", name), member(rope, "partial_rotary_factor"),
             1.0);
    }
    expect("partial_rotary_factor", 1.0);
  }

  /// One of ours, with what its kind has beside a Llama.
  void expect_causal_language_model() const {
    const Json& type = config_.at("model_type");
    for (const auto& [known, architecture] : kModels) {
      if (type != known) continue;
      const Json architectures = member(config_, "architectures");
      expect("architectures", architectures, Json::array({architecture}));
      if (type == kMixtralType) expect("sliding_window", nullptr);
      return;
    }
    throw FileError(
        fmt::format("'{}': its model_type is {}, expected \"{}\" (or \"{}\", with --experts): this "
                    "program's model is a Llama's.",
                    path_, shown_json(type), kModelType, kMixtralType));
  }

 private:
  const Json& config_;
  const std::string& path_;
};

void expect_our_features(const Json& config, const std::string& path) {
  const Features features(config, path);
  features.expect_causal_language_model();
  features.expect("hidden_act", "silu");
  for (const char* bias : {"attention_bias", "mlp_bias"}) features.expect(bias, false);
  features.expect_plain_positions();
  features.expect("attention_dropout", 0.0);
  if (const Json quantized = member(config, "quantization_config"); !quantized.is_null()) {
    features.expect("quantization_config", quantized, nullptr);
  }
}

double rope_theta_of(const Json& config) {
  constexpr const char* kName = "rope_theta";
  if (config.contains(kName)) return member_in<double>(config, kName, "a number");
  const Json rope = member(config, "rope_parameters");
  if (member(rope, kName).is_null()) return nn::ModelConfig{}.rope_theta;
  return member_in<double>(rope, kName, "a number");
}

/// Refuses numbers with which no loss is finite, whatever the weights are.
void expect_numbers_to_train_with(const nn::ModelConfig& model, const std::string& path) {
  // Frequencies of positions are powers of 1 / theta.
  const double fastest = static_cast<double>(model.max_seq_len) / model.rope_theta;
  if (!(model.rope_theta > 0) || !std::isfinite(fastest)) {
    throw FileError(
        fmt::format("'{}' has rope_theta {}, expected a number above 0 (10000 in many models): it "
                    "is the base of the rotary frequencies. Take another copy of the model.",
                    path, model.rope_theta));
  }
  if (!(model.norm_epsilon >= 0)) {
    throw FileError(fmt::format(
        "'{}' has rms_norm_eps {}, expected 0 or a little more (1e-05 in many models): a "
        "norm adds it before it takes a square root. Take another copy of the model.",
        path, model.norm_epsilon));
  }
}

nn::ModelConfig model_from(const Json& config, const std::string& path) {
  expect_our_features(config, path);
  nn::ModelConfig model;
  model.hidden_size = size_in(config, "hidden_size");
  model.ffn_hidden_size = size_in(config, "intermediate_size");
  model.num_layers = size_in(config, "num_hidden_layers");
  model.num_heads = size_in(config, "num_attention_heads");
  const bool has_kv_heads = !member(config, "num_key_value_heads").is_null();
  model.num_kv_heads = has_kv_heads ? size_in(config, "num_key_value_heads") : model.num_heads;
  model.vocab_size = size_in(config, "vocab_size");
  model.max_seq_len = size_in(config, "max_position_embeddings");
  model.rope_theta = rope_theta_of(config);
  model.norm_epsilon = member_in<double>(config, "rms_norm_eps", "a number");
  expect_numbers_to_train_with(model, path);
  const bool says_tied = !member(config, "tie_word_embeddings").is_null();
  model.tied_embeddings =
      says_tied && member_in<bool>(config, "tie_word_embeddings", "true or false");
  const Json head_dim = member(config, "head_dim");
  if (!head_dim.is_null() && head_dim != model.hidden_size / model.num_heads) {
    throw FileError(fmt::format(
        "'{}' has head_dim {}, and this program's heads have hidden_size / num_attention_heads = "
        "{} / {} only.",
        path, shown_json(head_dim), model.hidden_size, model.num_heads));
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

}  // namespace

std::string llama_config_json(const nn::ModelConfig& model, DType dtype) {
  const Json config = {{"architectures", {"LlamaForCausalLM"}},
                       {"model_type", kModelType},
                       {"hidden_size", model.hidden_size},
                       {"intermediate_size", model.ffn_hidden_size},
                       {"num_hidden_layers", model.num_layers},
                       {"num_attention_heads", model.num_heads},
                       {"num_key_value_heads", model.num_kv_heads},
                       {"head_dim", model.head_dim()},
                       {"vocab_size", model.vocab_size},
                       {"max_position_embeddings", model.max_seq_len},
                       {"rope_theta", model.rope_theta},
                       {"rms_norm_eps", model.norm_epsilon},
                       {"hidden_act", "silu"},
                       {"attention_bias", false},
                       {"mlp_bias", false},
                       {"tie_word_embeddings", model.tied_embeddings},
                       {"bos_token_id", nullptr},
                       {"eos_token_id", nullptr},
                       {"torch_dtype", name_of(dtype)}};
  return config.dump(2) + "\n";
}

nn::ModelConfig parse_llama_config(const std::string& text, const std::string& path) {
  try {
    return model_from(parse_json(text, path, FileOf::kModel), path);
  } catch (const JsonError& error) {
    throw FileError(fmt::format("'{}' does not say the sizes of a Llama as config.json does: {}.",
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

}  // namespace ultra::checkpoint
