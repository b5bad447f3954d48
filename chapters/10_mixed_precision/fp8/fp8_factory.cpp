#include "chapters/10_mixed_precision/fp8/fp8_factory.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "chapters/05_tensor_sequence_parallel/tensor_parallel_factory.hpp"
#include "chapters/10_mixed_precision/fp8/fp8_experts.hpp"
#include "common/nn/parameter.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr std::string_view kBlocks = "model.layers.";

nn::Replication same_on(std::string_view group, const Communicator& ranks) {
  return {.group = std::string(group),
          .size = ranks.size(),
          .index = ranks.rank(),
          .gradients = nn::CopyGradients::kEqual};
}

bool has_group(const train::RankGroups& groups, std::string_view name) {
  return std::ranges::any_of(groups.all(), [&](const auto& group) { return group.first == name; });
}

}  // namespace

std::unique_ptr<nn::Projections> Fp8Factory::column_linear(
    const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) {
  std::unique_ptr<nn::Projections> maps = inner().column_linear(context, specs);
  if (!specs.front().name.starts_with(kBlocks)) return maps;
  return std::make_unique<Fp8Projections>(context, std::move(maps), scope_);
}

std::unique_ptr<nn::Layer> Fp8Factory::row_linear(const nn::BuildContext& context,
                                                  const nn::LinearSpec& spec) {
  return std::make_unique<Fp8Linear>(context, inner().row_linear(context, spec), scope_);
}

std::unique_ptr<nn::Layer> Fp8Factory::feed_forward(const nn::BuildContext& context,
                                                    std::size_t layer) {
  return with_fp8_experts(context, inner().feed_forward(context, layer), scope_);
}

void add_fp8_groups(train::Plan& plan, const Fp8Recipe& recipe) {
  if (recipe.scaling != Scaling::kDelayed || has_group(plan.groups, nn::kOwnGroup)) return;
  plan.groups.add(std::string(nn::kOwnGroup),
                  plan.ranks().split(plan.ranks().rank(), 0, std::string(nn::kOwnGroup)));
}

Fp8Scope fp8_scope(const Fp8Recipe& recipe, const train::Plan& plan) {
  return {.recipe = recipe,
          .tp = plan.mesh.tp(),
          .tokens = plan.mesh.group({MeshDim::kCp, MeshDim::kTp}),
          .history_copies = {same_on(tensor_parallel::kTensorGroup, plan.mesh.tp()),
                             same_on(nn::kDataGroup, plan.groups.at(nn::kDataGroup))}};
}

}  // namespace ultra::mixed_precision
