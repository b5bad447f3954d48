#pragma once
/// @file
/// config.json of a model with mixtures of experts in place of its feed-forward parts.
///
/// Hugging Face's Mixtral computes what a mixture of ours does when the affinities are a softmax's,
/// the weights of at least two chosen experts add up to one, and nothing else takes part. A config.json
/// that says Mixtral of another mixture would be loaded without a word, and be wrong. So others get a
/// type that no program loads.
/// Source: Hugging Face transformers, MixtralConfig and MixtralSparseMoeBlock.

#include <cstddef>
#include <optional>
#include <string>

namespace ultra::checkpoint {

/// @brief model_type of Mixtral in Hugging Face's config.json.
inline constexpr const char* kMixtralType = "mixtral";
/// @brief Its architecture.
inline constexpr const char* kMixtralArchitecture = "MixtralForCausalLM";
/// @brief model_type of mixtures that Mixtral's code would compute otherwise: nobody loads it.
inline constexpr const char* kOwnMixtureType = "ultra_scale_mixture";
/// @brief Their architecture.
inline constexpr const char* kOwnMixtureArchitecture = "UltraScaleMixtureForCausalLM";

/// @brief A mixture of experts, the same in each block.
struct MixtureConfig {
  std::size_t experts = 0;     ///< that tokens choose from
  std::size_t top_k = 0;       ///< that each token chooses
  std::size_t expert_ffn = 0;  ///< width inside each expert
  std::string unlike_mixtral;  ///< what Mixtral's code would compute otherwise; empty: nothing
};

/// @brief A config.json of the model without experts, as one of the model with them.
/// @param text  of LlamaForCausalLM, or of a mixture; other members stay as they are.
/// @param path  of the text, for messages.
/// @throws FileError when it is no JSON object.
[[nodiscard]] std::string config_with_mixture(const std::string& text, const MixtureConfig& mixture,
                                              const std::string& path);

/// @brief What a config.json says of experts.
struct StoredMixture {
  bool is_mixtral = false;  ///< whether Hugging Face's Mixtral computes it
  std::size_t experts = 0;  ///< num_local_experts
  std::size_t top_k = 0;    ///< num_experts_per_tok
};

/// @brief The mixture of a config.json; none when it is of another type.
/// @param path  of the file, for messages.
/// @throws FileError when it is no JSON, or does not say the mixture's sizes.
[[nodiscard]] std::optional<StoredMixture> parse_mixture(const std::string& text,
                                                         const std::string& path);

}  // namespace ultra::checkpoint
