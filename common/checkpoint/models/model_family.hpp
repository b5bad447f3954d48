#pragma once
/// @file
/// ModelFamily: what a kind of model on Hugging Face's hub is called, and what it has beside a plain
/// transformer. One file each: llama.cpp, mistral.cpp, qwen2.cpp, qwen3.cpp, deepseek_v3.cpp,
/// mixtral.cpp, own_mixture.cpp; families.cpp lists them. HubConfig: what a config.json says, with
/// refusals in words.

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "common/base/json.hpp"
#include "common/nn/model_config.hpp"

namespace ultra::checkpoint {

/// @brief A config.json that is read member by member.
class HubConfig {
 public:
  /// @param config  an object; outlives this.
  /// @param path    of its file, for messages; outlives this.
  HubConfig(const Json& config, const std::string& path) : config_(config), path_(path) {}

  /// @brief The object.
  [[nodiscard]] const Json& json() const { return config_; }
  /// @brief A member; null when there is none.
  [[nodiscard]] Json member(const char* name) const;
  /// @brief A member that is a whole number above 0.
  /// @throws JsonError that names it when it is none.
  [[nodiscard]] std::size_t size(const char* name) const;
  /// @brief The same, or another number where the member is missing or null.
  [[nodiscard]] std::size_t size_or(const char* name, std::size_t otherwise) const;

  /// @brief Refuses a config.json that leaves these out: where it is silent, other programs take
  /// values that are not ours.
  /// @throws JsonError that names the first.
  void expect_said(std::initializer_list<const char*> names) const;
  /// @brief Refuses a model that has what ours lacks. A member that is missing or null counts as
  /// ours.
  /// @throws FileError that says what it has and what ours is.
  void expect(const char* name, const Json& ours) const;
  /// @brief The same, for a value that is nested deeper.
  void expect(const std::string& name, const Json& found, const Json& ours) const;
  /// @brief Throws FileError "'PATH' WHAT".
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const Json& config_;
  const std::string& path_;
};

/// @brief The member of an object; null when there is none.
[[nodiscard]] Json member_or_null(const Json& object, const char* name);

/// @brief A mixture of experts, the same in each block.
struct MixtureConfig {
  std::size_t experts = 0;     ///< that tokens choose from
  std::size_t top_k = 0;       ///< that each token chooses
  std::size_t expert_ffn = 0;  ///< width inside each expert
  std::string
      unlike_published;  ///< what the code of published mixtures would compute otherwise; empty:
                         ///< nothing
};

/// @brief Names of a mixture's weights: "model.layers.L.PART.experts.E.GATE.weight" and so on.
struct ExpertNames {
  std::string_view part;  ///< of a block
  std::string_view gate;  ///< matrices of an expert: silu(gate x) * (up x), then down
  std::string_view up;    ///< see gate
  std::string_view down;  ///< see gate
};

/// @brief The experts of a family; `names.part` is empty in one without.
struct FamilyExperts {
  ExpertNames names = {};             ///< of their weights
  const char* count = nullptr;        ///< config.json's name for how many there are
  const char* other_count = nullptr;  ///< another name for that, which some programs write
  /// The members of config.json that say which mixture it is; empty in a family without.
  void (*write)(const MixtureConfig& mixture, Json& config) = nullptr;
};

/// @brief A kind of model, as config.json knows it.
struct ModelFamily {
  const char* type;          ///< "model_type"
  const char* architecture;  ///< the one of "architectures" that is a language model
  /// Whether its code computes a model as ours does.
  bool (*computes)(const nn::ModelConfig& model);
  /// Takes what it has beside the sizes that all have; refuses what ours lacks, in words.
  void (*read)(const HubConfig& config, nn::ModelConfig& model);
  /// Writes that.
  void (*write)(const nn::ModelConfig& model, Json& config);
  FamilyExperts experts = {};           ///< none in a family without
  double default_rope_theta = 10000.0;  ///< where config.json does not say it
};

/// @brief Models whose blocks are dense, and mixtures of experts. The first that computes a model names
/// it in config.json.
[[nodiscard]] std::span<const ModelFamily* const> model_families();

/// @brief The family whose code computes a model, with experts or without.
[[nodiscard]] const ModelFamily& family_of(const nn::ModelConfig& model, bool has_experts);

/// @brief The names of a mixture's weights in a model.
[[nodiscard]] const ExpertNames& expert_names(const nn::ModelConfig& model);

/// @brief The widths of latents, under config.json's names.
void write_latents(const nn::LatentAttention& latent, Json& config);
/// @brief Takes them; where config.json is silent, those of DeepSeek-V3.
[[nodiscard]] nn::LatentAttention read_latents(const HubConfig& config);

/// @brief The window of Qwen's configurations, in all layers or in none.
void write_qwen_window(const nn::ModelConfig& model, Json& config);
/// @brief Takes it; refuses one that some layers have only.
void read_qwen_window(const HubConfig& config, nn::ModelConfig& model);

extern const ModelFamily kLlama;    ///< Llama: Llama 2 to 3.2 of Meta's, and many others
extern const ModelFamily kMistral;  ///< Mistral 7B: a window of tokens
extern const ModelFamily kQwen2;    ///< Qwen2 and Qwen2.5: biases of queries, keys and values
extern const ModelFamily kQwen3;    ///< Qwen3: norms of queries and keys
extern const ModelFamily
    kDeepseekV3;  ///< DeepSeek-V3 as far as its blocks are dense: latent attention
extern const ModelFamily kMixtral;     ///< Mixtral: a Llama whose feed-forward parts are experts
extern const ModelFamily kQwen3Moe;    ///< the same of Qwen3
extern const ModelFamily kOwnMixture;  ///< mixtures that nobody else computes: nobody loads them

}  // namespace ultra::checkpoint
