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

/// @brief The model of a config.json of LlamaForCausalLM, ours or another program's.
/// @param path  of the file, for messages.
/// @throws FileError when it is no JSON, of another kind of model, has what ours lacks (biases,
/// scaled or partial rotations, other activations, heads of another width, dropout, quantized
/// weights), or does not say its sizes.
[[nodiscard]] nn::ModelConfig parse_llama_config(const std::string& text, const std::string& path);

/// @brief A config.json as it was, but for the type of the weights.
/// @param path  of the text, for messages.
/// @throws FileError when it is no JSON object.
[[nodiscard]] std::string config_with_dtype(const std::string& text, DType dtype,
                                            const std::string& path);

}  // namespace ultra::checkpoint
