#include "common/checkpoint/mixture_config.hpp"

#include "common/base/json.hpp"
#include "common/checkpoint/json_file.hpp"

namespace ultra::checkpoint {
namespace {

constexpr const char* kWhy = "not_mixtral_because";

}  // namespace

std::string config_with_mixture(const std::string& text, const MixtureConfig& mixture,
                                const std::string& path) {
  Json config = parse_object(text, path);
  for (const char* of_llama : {"attention_bias", "mlp_bias", kWhy}) config.erase(of_llama);
  const bool is_mixtral = mixture.unlike_mixtral.empty();
  config["architectures"] = {is_mixtral ? kMixtralArchitecture : kOwnMixtureArchitecture};
  config["model_type"] = is_mixtral ? kMixtralType : kOwnMixtureType;
  config["intermediate_size"] = mixture.expert_ffn;
  config["num_local_experts"] = mixture.experts;
  config["num_experts_per_tok"] = mixture.top_k;
  if (is_mixtral) {
    config["sliding_window"] = nullptr;
    config["router_jitter_noise"] = 0.0;
    config["output_router_logits"] = false;  // its balancing term is another one than ours
  } else {
    config[kWhy] = mixture.unlike_mixtral;
  }
  return config.dump(2) + "\n";
}

std::optional<StoredMixture> parse_mixture(const std::string& text, const std::string& path) {
  return read_json(
      text, path,
      [](const Json& config) -> std::optional<StoredMixture> {
        const auto type = member_in<std::string>(config, "model_type", "a text");
        if (type != kMixtralType && type != kOwnMixtureType) return {};
        return StoredMixture{.is_mixtral = type == kMixtralType,
                             .experts = whole_number_in<std::size_t>(config, "num_local_experts"),
                             .top_k = whole_number_in<std::size_t>(config, "num_experts_per_tok")};
      },
      FileOf::kModel);
}

}  // namespace ultra::checkpoint
