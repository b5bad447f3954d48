#include "chapters/11_five_d/planner/model/frozen_weights.hpp"

#include <fmt/format.h>

#include <string_view>

#include "chapters/01_memory/model_presets.hpp"
#include "chapters/11_five_d/planner/model/model_shape.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/nn/initialization.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/model.hpp"
#include "common/train/weights/frozen_weights.hpp"

namespace ultra::planner {
namespace {

constexpr std::string_view kLayers = "model.layers.";

void add_to_block(FrozenWeights& frozen, const nn::NamedShape& weight) {
  const std::string_view rest = std::string_view(weight.name).substr(kLayers.size());
  FrozenBlock& block =
      frozen.blocks.at(*parse_number<std::size_t>(std::string(rest.substr(0, rest.find('.')))));
  const bool of_keys = rest.find("k_proj") != rest.npos || rest.find("v_proj") != rest.npos;
  std::size_t& kind = weight.shape.rank() == 1 ? block.norms
                      : of_keys                ? block.key_weights
                                               : block.split;
  kind += weight.shape.numel();
}

}  // namespace

FrozenWeights frozen_weights(const ModelShape& model, const std::vector<std::string>& patterns) {
  const memory::TransformerShape& s = model.shape();
  if (patterns.empty()) return {};
  if (s.kind == memory::BlockKind::kGpt || model.has_experts() ||
      model.layers.attention_parameters) {
    throw ConfigError(
        fmt::format("--freeze: a plan knows the names of a Llama's weights, and {} is none. Leave "
                    "it out, or record the step: --on.",
                    s.name));
  }
  nn::DenseFactory factory;
  const std::vector<nn::NamedShape> whole = nn::named_shapes(memory::config_of(s), factory);
  train::expect_to_train(patterns, whole);
  FrozenWeights frozen{.patterns = patterns, .blocks = std::vector<FrozenBlock>(s.num_layers)};
  for (const nn::NamedShape& weight : whole) {
    if (!train::is_frozen_by(patterns, weight.name)) continue;
    if (weight.name.starts_with(kLayers)) {
      add_to_block(frozen, weight);
    } else if (weight.name == nn::kEmbeddingName) {
      frozen.input_table = true;
      frozen.output_table |= s.embeddings == memory::Embeddings::kTied;
    } else if (weight.shape.rank() == 1) {
      frozen.final_norm = true;
    } else {
      frozen.output_table = true;
    }
  }
  return frozen;
}

}  // namespace ultra::planner
