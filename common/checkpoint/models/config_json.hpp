#pragma once
/// @file
/// config.json: how other programs learn what model the weights are of.
///
/// The code of a published mixture computes what one of ours does when the affinities are a softmax's,
/// the weights of at least two chosen experts add up to one, and nothing else takes part. If a
/// config.json gave its name to another mixture, a program would load it without an error and
/// compute something else. So other mixtures get a type that no program loads.

#include <cstddef>
#include <optional>
#include <string>

#include "common/checkpoint/models/model_family.hpp"
#include "common/nn/model_config.hpp"
#include "common/tensor/dtype.hpp"

namespace ultra::checkpoint {

/// @brief The text of a config.json of the family whose code computes a model, beside which a
/// model.safetensors with our parameters' names and shapes can be loaded.
/// @param dtype  of the weights in the file.
/// Source: Hugging Face transformers, the configurations that the files beside this one name.
[[nodiscard]] std::string model_config_json(const nn::ModelConfig& model, DType dtype);

/// @brief The model of a config.json of one of the families, ours or another program's.
/// @param path  of the file, for messages.
/// @throws FileError when it is not JSON, of another kind of model, has what ours lacks (other biases,
/// other rotations, other activations, windows, dropout, quantized weights), or does not say its sizes.
[[nodiscard]] nn::ModelConfig parse_model_config(const std::string& text, const std::string& path);

/// @brief A config.json as it was, except for the type of the weights.
/// @param path  of the text, for messages.
/// @throws FileError when it is not a JSON object.
[[nodiscard]] std::string config_with_dtype(const std::string& text, DType dtype,
                                            const std::string& path);

/// @brief A config.json of the model without experts, as one of the model with them.
/// @param text  of a dense model, or of a mixture; other members stay as they are.
/// @param path  of the text, for messages.
/// @throws FileError when it is not a JSON object, or not a model of ours.
[[nodiscard]] std::string config_with_mixture(const std::string& text, const MixtureConfig& mixture,
                                              const std::string& path);

/// @brief What a config.json says of experts.
struct StoredMixture {
  bool is_published = false;    ///< whether the code of a published mixture computes it
  std::size_t experts = 0;      ///< that tokens choose from
  const char* count = nullptr;  ///< what config.json calls that
  std::size_t top_k = 0;        ///< num_experts_per_tok
};

/// @brief The mixture of a config.json; none when it is of another type.
/// @param path  of the file, for messages.
/// @throws FileError when it is not JSON, or does not say the mixture's sizes.
[[nodiscard]] std::optional<StoredMixture> parse_mixture(const std::string& text,
                                                         const std::string& path);

}  // namespace ultra::checkpoint
