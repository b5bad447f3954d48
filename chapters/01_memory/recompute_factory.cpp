#include <algorithm>
#include <iterator>
#include <utility>

#include "chapters/01_memory/recompute.hpp"
#include "common/nn/transformer_block.hpp"

namespace ultra::memory {

RecomputeFactory::RecomputeFactory(nn::LayerFactory& inner, const RecomputeConfig& config)
    : FactoryWrapper(inner), config_(config) {
  config_.validate();
}

std::unique_ptr<nn::Layer> RecomputeFactory::block(const nn::BuildContext& context,
                                                   std::size_t layer) {
  std::unique_ptr<nn::Layer> block = inner().block(context, layer);
  if (config_.mode != Recompute::kSelective) return block;
  return std::make_unique<SelectiveRecompute>(std::move(block));
}

std::unique_ptr<nn::Layer> RecomputeFactory::stack(const nn::BuildContext& context,
                                                   std::vector<std::unique_ptr<nn::Layer>> blocks) {
  if (config_.mode != Recompute::kFull) return inner().stack(context, std::move(blocks));
  std::vector<std::unique_ptr<nn::Layer>> groups;
  for (std::size_t begin = 0; begin < blocks.size(); begin += config_.recompute_every) {
    const std::size_t end = std::min(begin + config_.recompute_every, blocks.size());
    std::vector<std::unique_ptr<nn::Layer>> group(
        std::make_move_iterator(blocks.begin() + static_cast<std::ptrdiff_t>(begin)),
        std::make_move_iterator(blocks.begin() + static_cast<std::ptrdiff_t>(end)));
    groups.push_back(
        std::make_unique<FullRecompute>(std::make_unique<nn::Sequential>(std::move(group))));
  }
  return inner().stack(context, std::move(groups));
}

}  // namespace ultra::memory
