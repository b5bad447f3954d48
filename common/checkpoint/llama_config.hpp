#pragma once
/// @file
/// config.json: how other programs learn what model the weights are of.

#include <string>

#include "common/nn/model_config.hpp"
#include "common/tensor/dtype.hpp"

namespace ultra::checkpoint {

/// @brief The text of a config.json of Hugging Face's LlamaForCausalLM, beside which a
/// model.safetensors with our parameters' names and shapes can be loaded.
/// @param dtype  of the weights in the file.
/// Source: Hugging Face transformers, LlamaConfig.
[[nodiscard]] std::string llama_config_json(const nn::ModelConfig& model, DType dtype);

}  // namespace ultra::checkpoint
