#pragma once
/// @file
/// Models that have names: a name stands for the flags that describe the model.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ultra::train {

/// @brief A published model.
struct NamedModel {
  std::string name;                                        ///< "llama-8b"
  std::vector<std::pair<std::string, std::string>> flags;  ///< "--layers" and "32"; a switch has ""
};

/// @brief Dense models of the Llama family, the smallest first.
///
/// Sources: the `config.json` of meta-llama/Llama-3.2-1B, Llama-2-7b-hf, Meta-Llama-3-8B,
/// Meta-Llama-3-70B and Llama-3.1-405B on Hugging Face (`num_hidden_layers`, `hidden_size`,
/// `num_attention_heads`, `num_key_value_heads`, `intermediate_size`, `vocab_size`,
/// `tie_word_embeddings`).
[[nodiscard]] const std::vector<NamedModel>& llama_models();

/// @brief A command line with the flags that its `--model NAME` stands for behind it, but for those
/// that it gives itself; as it is, without that flag.
/// @throws ConfigError for a name that no model has, with all there are.
[[nodiscard]] std::vector<std::string> with_model_flags(std::vector<std::string> words,
                                                        const std::vector<NamedModel>& models);

}  // namespace ultra::train
