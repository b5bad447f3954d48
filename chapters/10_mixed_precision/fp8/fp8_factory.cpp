#include "chapters/10_mixed_precision/fp8/fp8_factory.hpp"

#include <algorithm>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <utility>

#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_factory.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/08_expert_parallel/moe_layer.hpp"
#include "chapters/10_mixed_precision/delayed_scaling.hpp"
#include "common/base/errors.hpp"
#include "common/nn/parameter.hpp"
#include "common/tensor/host_view.hpp"

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

class AmaxObserver : public train::StepObserver {
 public:
  AmaxObserver(const train::ModelScope& scope, std::size_t history)
      : ranks_(
            scope.plan.mesh.group({kReplicaAxis, context_parallel::kAxis, tensor_parallel::kAxis})),
        device_(scope.context.device),
        row_(1 + history) {
    for (nn::Model* chunk : scope.chunks) {
      for (nn::Parameter* parameter : chunk->parameters()) {
        if (parameter->name().ends_with(kHistorySuffix)) histories_.push_back(parameter);
      }
    }
  }

  /// A checkpoint may hold what a validation has noted.
  void step_begins(const train::StepPlan&) override { forget_noted(); }

  /// Its passes have noted maxima too, which are none of the training's.
  void validation_ends() override { forget_noted(); }

  void step_ends(const train::StepPlan&) override {
    std::list<HostView<float>> views;
    for (const nn::Parameter* parameter : histories_) {
      views.emplace_back(parameter->value(), HostAccess::kReadWrite);
    }
    std::vector<std::span<float>> histories;
    for (const HostView<float>& values : views) {
      for (std::size_t first = 0; first < values.size(); first += row_) {
        histories.push_back(values.span().subspan(first, row_));
      }
    }
    end_amax_steps(histories, ranks_, device_.host());
  }

 private:
  void forget_noted() const {
    for (const nn::Parameter* parameter : histories_) {
      const Tensor& values = parameter->value();
      for (std::size_t first = 0; first < values.numel(); first += row_) {
        values.slice(0, {first, first + 1}).fill(0.0);
      }
    }
  }

  Communicator ranks_;
  Device device_;
  std::size_t row_;
  std::vector<nn::Parameter*> histories_;
};

/// Follows nothing.
class NoObserver : public train::StepObserver {};

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
  if (recipe.scaling != Scaling::kDelayed || has_group(plan.groups, nn::kLocalGroup)) return;
  plan.groups.add(std::string(nn::kLocalGroup),
                  plan.ranks().split(std::identity(), std::string(nn::kLocalGroup)));
}

Fp8Scope fp8_scope(const Fp8Recipe& recipe, const train::Plan& plan) {
  return {.recipe = recipe,
          .tp = plan.mesh.along(tensor_parallel::kAxis),
          .tokens = plan.mesh.group({context_parallel::kAxis, tensor_parallel::kAxis}),
          .history_copies = {
              same_on(tensor_parallel::kTensorGroup, plan.mesh.along(tensor_parallel::kAxis)),
              same_on(nn::kDataGroup, plan.groups.at(nn::kDataGroup))}};
}

using expert_parallel::ExpertLinears;

Fp8ExpertLinears::Fp8ExpertLinears(const nn::BuildContext& context,
                                   std::unique_ptr<ExpertLinears> maps, Fp8Scope scope)
    : maps_(std::move(maps)),
      weights_(maps_->parameters().size()),
      tensors_(context, maps_->parameters(), scope) {
  ensure(scope.recipe.scaling == Scaling::kBlockwise, "experts in fp8 have scales of tiles");
}

std::vector<Tensor> Fp8ExpertLinears::forward(const Tensor& x, std::span<const std::size_t> rows,
                                              nn::Saved& saved) {
  const OnGrid input = tensors_.input(x, saved.pass());
  const Fp8Tensors::WeightsOnGrid weights(tensors_, saved.pass(), Fp8::kE4m3);
  std::vector<Tensor> outputs = maps_->forward(input.numbers, rows, saved);
  tensors_.pack_input(x, input, saved);
  return outputs;
}

Tensor Fp8ExpertLinears::backward(std::span<const Tensor> d_y, std::span<const std::size_t> rows,
                                  nn::Saved& saved) {
  tensors_.unpack_input(saved);
  const Fp8Tensors::WeightsOnGrid weights(tensors_, saved.pass(), tensors_.gradient_format());
  const std::size_t experts = weights_ / d_y.size();  // their weights have one shape
  std::vector<Tensor> gradients;
  for (std::size_t map = 0; map < d_y.size(); ++map) {
    gradients.push_back(tensors_.gradient(map * experts, d_y[map], saved.pass()));
  }
  return maps_->backward(gradients, rows, saved);
}

std::unique_ptr<nn::Layer> with_fp8_experts(const nn::BuildContext& context,
                                            std::unique_ptr<nn::Layer> feed_forward,
                                            const Fp8Scope& scope) {
  auto* mixture = dynamic_cast<expert_parallel::MoeLayer*>(feed_forward.get());
  if (mixture == nullptr || scope.recipe.scaling != Scaling::kBlockwise) return feed_forward;
  mixture->experts().wrap([&](std::unique_ptr<ExpertLinears> maps) {
    return std::make_unique<Fp8ExpertLinears>(context, std::move(maps), scope);
  });
  return feed_forward;
}

std::unique_ptr<train::StepObserver> observe_fp8(const train::ModelScope& scope,
                                                 const Fp8Recipe& recipe) {
  if (recipe.scaling != Scaling::kDelayed) return std::make_unique<NoObserver>();
  return std::make_unique<AmaxObserver>(scope, recipe.history);
}

}  // namespace ultra::mixed_precision
