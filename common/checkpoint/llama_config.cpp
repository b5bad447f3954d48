#include "common/checkpoint/llama_config.hpp"

#include <nlohmann/json.hpp>

#include "common/checkpoint/json_file.hpp"

namespace ultra::checkpoint {
namespace {

constexpr const char* kModelType = "llama";

std::size_t size_in(const nlohmann::json& config, const char* name) {
  const auto size = whole_number_in<std::size_t>(config, name);
  if (size > 0) return size;
  throw nlohmann::json::other_error::create(501, std::string("'") + name + "' is 0", &config);
}

nn::ModelConfig model_from(const nlohmann::json& config) {
  const nlohmann::json& type = config.at("model_type");
  if (type != kModelType) {
    throw nlohmann::json::type_error::create(
        302, "its model_type is " + shown_json(type) + ", expected \"llama\"", &type);
  }
  nn::ModelConfig model;
  model.hidden_size = size_in(config, "hidden_size");
  model.ffn_hidden_size = size_in(config, "intermediate_size");
  model.num_layers = size_in(config, "num_hidden_layers");
  model.num_heads = size_in(config, "num_attention_heads");
  model.num_kv_heads = size_in(config, "num_key_value_heads");
  model.vocab_size = size_in(config, "vocab_size");
  model.max_seq_len = size_in(config, "max_position_embeddings");
  model.rope_theta = config.at("rope_theta");
  model.norm_epsilon = config.at("rms_norm_eps");
  model.tied_embeddings = config.at("tie_word_embeddings");
  return model;
}

}  // namespace

std::string llama_config_json(const nn::ModelConfig& model, DType dtype) {
  const nlohmann::ordered_json config = {
      {"architectures", {"LlamaForCausalLM"}},
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
      {"torch_dtype", dtype == DType::kF64 ? "float64" : "float32"}};
  return config.dump(2) + "\n";
}

nn::ModelConfig parse_llama_config(const std::string& text, const std::string& path) {
  return read_json(text, path, model_from);
}

}  // namespace ultra::checkpoint
