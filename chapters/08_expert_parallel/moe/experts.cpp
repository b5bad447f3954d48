#include "chapters/08_expert_parallel/moe/experts.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "common/checkpoint/models/model_family.hpp"
#include "common/nn/collect.hpp"
#include "common/nn/initialization.hpp"
#include "common/ops/swiglu.hpp"

namespace ultra::expert_parallel {
namespace {

std::unique_ptr<nn::Parameter> make_weight(const nn::BuildContext& context, nn::ParameterSpec spec,
                                           const LocalExperts& share) {
  auto weight = std::make_unique<nn::Parameter>(std::move(spec), context.device, context.precision,
                                                context.seed, context.values);
  weight->set_data_group(share.data_group);
  return weight;
}

}  // namespace

std::string moe_prefix(const nn::ModelConfig& model, std::size_t layer) {
  return fmt::format("model.layers.{}.{}", layer, checkpoint::expert_names(model).part);
}

Experts::Experts(const nn::BuildContext& context, std::size_t layer, const MoeConfig& config,
                 const LocalExperts& share) {
  const std::size_t hidden = context.config.hidden_size;
  const std::size_t ffn = config.expert_ffn;
  const std::size_t part = ffn / share.tp;
  const Range columns{share.tp_rank * part, (share.tp_rank + 1) * part};
  const std::string prefix = moe_prefix(context.config, layer);
  const checkpoint::ExpertNames& names = checkpoint::expert_names(context.config);
  using Weights = GroupedExpertLinears::Weights;
  std::vector<Weights> gate_up(2);
  std::vector<Weights> down(1);
  for (std::size_t e = share.experts.begin; e < share.experts.end; ++e) {
    const auto name = [&](std::string_view which) {
      return fmt::format("{}.experts.{}.{}.weight", prefix, e, which);
    };
    const auto into = [&](std::string_view which) {
      return nn::ParameterSpec{.name = name(which),
                               .global_shape = {ffn, hidden},
                               .shard = {columns, {0, hidden}},
                               .initializer = {.standard_deviation = nn::kInitialDeviation}};
    };
    gate_up[0].push_back(make_weight(context, into(names.gate), share));
    gate_up[1].push_back(make_weight(context, into(names.up), share));
    down[0].push_back(
        make_weight(context,
                    {.name = name(names.down),
                     .global_shape = {hidden, ffn},
                     .shard = {{0, hidden}, columns},
                     .initializer = {.standard_deviation = nn::residual_deviation(context.config)}},
                    share));
  }
  gate_up_ = std::make_unique<GroupedExpertLinears>(std::move(gate_up));
  down_ = std::make_unique<GroupedExpertLinears>(std::move(down));
}

// [region forward]
Tensor Experts::forward(const Tensor& x, std::span<const std::size_t> rows, nn::Saved& saved) {
  const std::vector<Tensor> outputs = gate_up_->forward(x, rows, saved.child("gate_up"));
  const Tensor& gate = outputs[0];  // [rows, ffn]
  const Tensor& up = outputs[1];
  saved.put("gate", gate);
  saved.put("up", up);
  const Tensor product = ops::swiglu(gate, up);
  saved.remakeable(product, [gate, up] { return ops::swiglu(gate, up); });
  return down_->forward(product, rows, saved.child("down")).front();
}
// [/region]

// [region backward]
Tensor Experts::backward(const Tensor& d_y, std::span<const std::size_t> rows, nn::Saved& saved) {
  Tensor d_product = down_->backward(std::span(&d_y, 1), rows, saved.child("down"));
  const auto [d_gate, d_up] = ops::swiglu_backward(d_product, saved.take("gate"), saved.take("up"));
  d_product = Tensor();
  return gate_up_->backward(std::array{d_gate, d_up}, rows, saved.child("gate_up"));
}
// [/region]

std::vector<nn::Parameter*> Experts::parameters() {
  return nn::collect_parameters({gate_up_.get(), down_.get()});
}

void Experts::wrap(const WrapExpertLinears& wrapper) {
  gate_up_ = wrapper(std::move(gate_up_));
  down_ = wrapper(std::move(down_));
}

}  // namespace ultra::expert_parallel
