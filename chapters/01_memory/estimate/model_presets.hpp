#pragma once
/// @file
/// Well-known models by name, and models given by their dimensions.

#include <string>
#include <string_view>
#include <vector>

#include "chapters/01_memory/memory_estimate.hpp"
#include "common/nn/model_config.hpp"
#include "common/tensor/dtype.hpp"

namespace ultra::memory {

/// @brief The known models, smallest to largest.
///
/// Sources: the `config.json` of openai-community/gpt2, meta-llama/Llama-3.2-1B, Llama-2-7b-hf,
/// Meta-Llama-3-8B, Meta-Llama-3-70B and Llama-3.1-405B on Hugging Face (`num_hidden_layers`,
/// `hidden_size`, `num_attention_heads`, `num_key_value_heads`, `intermediate_size`, `vocab_size`,
/// `tie_word_embeddings`); Brown et al. 2020 (GPT-3), arXiv 2005.14165, table 2.1.
[[nodiscard]] const std::vector<TransformerShape>& model_presets();

/// @brief The preset of that name; case does not matter.
/// @throws ConfigError with all names for an unknown one.
[[nodiscard]] const TransformerShape& find_preset(std::string_view name);

/// @brief The shape of one of our own models.
/// @throws ConfigError when the dimensions make no model.
[[nodiscard]] TransformerShape shape_of(const nn::ModelConfig& config);

/// @brief What `--estimate NAME` means: a preset, or "custom", the model that the flags describe.
/// @param config  the dimensions that `--layers`, `--hidden` and so on gave.
/// @throws ConfigError for an unknown name, and for custom dimensions that make no model.
[[nodiscard]] TransformerShape shape_for_estimate(std::string_view name,
                                                  const nn::ModelConfig& config);

/// @brief The precision in which our own training runs.
/// @throws ConfigError for a type that no training runs in.
[[nodiscard]] NumberFormats precision_of(DType dtype);

/// @brief "fp64", "fp32", "bf16-mixed" or "bf16-mixed-fp32grads".
[[nodiscard]] std::string_view to_string(NumberFormats precision);

/// @brief Parses the value of `--precision`.
/// @throws ConfigError for any text that to_string does not return.
[[nodiscard]] NumberFormats parse_precision(std::string_view text);

}  // namespace ultra::memory
