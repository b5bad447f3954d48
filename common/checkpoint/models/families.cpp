#include <algorithm>
#include <array>

#include "common/base/errors.hpp"
#include "common/checkpoint/models/model_family.hpp"

namespace ultra::checkpoint {

std::span<const ModelFamily* const> model_families() {
  static constexpr std::array kFamilies = {&kLlama,      &kMistral, &kQwen2,    &kQwen3,
                                           &kDeepseekV3, &kMixtral, &kQwen3Moe, &kOwnMixture};
  return kFamilies;
}

const ModelFamily& family_of(const nn::ModelConfig& model, bool has_experts) {
  const auto found = std::ranges::find_if(model_families(), [&](const ModelFamily* family) {
    return (family->experts.write != nullptr) == has_experts && family->computes(model);
  });
  ensure(found != model_families().end(), "a family for each model that is one");
  return **found;
}

const ExpertNames& expert_names(const nn::ModelConfig& model) {
  return family_of(model, true).experts.names;
}

}  // namespace ultra::checkpoint
