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
/// nn::published_models(), and two GPTs. Sources: the `config.json` of openai-community/gpt2 on Hugging
/// Face; Brown et al. 2020 (GPT-3), arXiv 2005.14165, table 2.1.
[[nodiscard]] const std::vector<TransformerShape>& model_presets();

/// @brief The preset of that name; case does not matter.
/// @throws ConfigError with all names for an unknown one.
[[nodiscard]] const TransformerShape& find_preset(std::string_view name);

/// @brief The shape of one of our own models.
/// @throws ConfigError when the dimensions make no model.
[[nodiscard]] TransformerShape shape_of(const nn::ModelConfig& config);

/// @brief The dimensions of a shape that our own models have.
[[nodiscard]] nn::ModelConfig config_of(const TransformerShape& shape);

/// @brief A preset by its name, or for "custom" the shape of `config`.
/// @throws ConfigError for an unknown name, and for dimensions that make no model.
[[nodiscard]] TransformerShape named_or_custom(std::string_view name,
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
