#include "chapters/08_expert_parallel/moe/experts.hpp"

#include <fmt/format.h>

#include "chapters/08_expert_parallel/moe/grouped_matmul.hpp"
#include "common/nn/initialization.hpp"
#include "common/ops/swiglu.hpp"

namespace ultra::expert_parallel {
namespace {

using ops::Transpose;
using ops::Write;

std::unique_ptr<nn::Parameter> make_weight(const nn::BuildContext& context, nn::ParameterSpec spec,
                                           const ExpertShare& share) {
  auto weight = std::make_unique<nn::Parameter>(std::move(spec), context.device, context.precision,
                                                context.seed, context.values);
  weight->set_data_group(share.data_group);
  return weight;
}

/// Adds d_y^T x of its rows to each weight's gradient, the last expert's first.
void add_grads(const std::vector<std::unique_ptr<nn::Parameter>>& weights,
               std::span<const std::size_t> rows, const Tensor& d_y, const Tensor& x) {
  std::size_t end = d_y.size(0);
  for (std::size_t e = weights.size(); e-- > 0;) {
    const Range group{end - rows[e], end};
    end = group.begin;
    if (rows[e] > 0) {
      nn::add_matmul_grad(*weights[e], d_y.slice(0, group), x.slice(0, group));
      continue;
    }
    weights[e]->add_grad([](const Tensor& grad, Write write) {
      if (write == Write::kOverwrite) grad.fill(0.0);
    });
  }
}

}  // namespace

std::string moe_prefix(std::size_t layer) {
  return fmt::format("model.layers.{}.block_sparse_moe", layer);
}

Experts::Experts(const nn::BuildContext& context, std::size_t layer, const MoeConfig& config,
                 const ExpertShare& share) {
  const std::size_t hidden = context.config.hidden_size;
  const std::size_t ffn = config.expert_ffn;
  const std::size_t part = ffn / share.tp;
  const Range columns{share.tp_rank * part, (share.tp_rank + 1) * part};
  for (std::size_t e = share.experts.begin; e < share.experts.end; ++e) {
    const auto name = [&](const char* which) {
      return fmt::format("{}.experts.{}.{}.weight", moe_prefix(layer), e, which);
    };
    const auto into = [&](const char* which) {
      return nn::ParameterSpec{.name = name(which),
                               .global_shape = {ffn, hidden},
                               .shard = {columns, {0, hidden}},
                               .initializer = {.standard_deviation = nn::kInitialDeviation}};
    };
    gate_.push_back(make_weight(context, into("w1"), share));
    up_.push_back(make_weight(context, into("w3"), share));
    down_.push_back(
        make_weight(context,
                    {.name = name("w2"),
                     .global_shape = {hidden, ffn},
                     .shard = {{0, hidden}, columns},
                     .initializer = {.standard_deviation = nn::residual_deviation(context.config)}},
                    share));
  }
}

std::vector<Tensor> Experts::values_of(const Weights& weights) {
  std::vector<Tensor> values;
  for (const auto& weight : weights) values.push_back(weight->value());
  return values;
}

// [region forward]
Tensor Experts::forward(const Tensor& x, std::span<const std::size_t> rows, nn::Saved& saved) {
  const Tensor gate = grouped_matmul(x, rows, values_of(gate_), Transpose::kYes);  // [rows, ffn]
  const Tensor up = grouped_matmul(x, rows, values_of(up_), Transpose::kYes);
  const Tensor product = ops::swiglu(gate, up);
  saved.put("expert_input", x);
  saved.put("gate", gate);
  saved.put("up", up);
  saved.child("down").put("input", product);
  return grouped_matmul(product, rows, values_of(down_), Transpose::kYes);  // [rows, hidden]
}
// [/region]

// [region backward]
Tensor Experts::backward(const Tensor& d_y, std::span<const std::size_t> rows, nn::Saved& saved) {
  Tensor d_product = grouped_matmul(d_y, rows, values_of(down_), Transpose::kNo);
  add_grads(down_, rows, d_y, saved.child("down").take("input"));
  const auto [d_gate, d_up] = ops::swiglu_backward(d_product, saved.take("gate"), saved.take("up"));
  d_product = Tensor();
  const Tensor x = saved.take("expert_input");
  Tensor d_x = grouped_matmul(d_up, rows, values_of(up_), Transpose::kNo);
  grouped_matmul_into(d_x, d_gate, rows, values_of(gate_), Transpose::kNo, Write::kAccumulate);
  add_grads(up_, rows, d_up, x);
  add_grads(gate_, rows, d_gate, x);
  return d_x;
}
// [/region]

std::vector<nn::Parameter*> Experts::parameters() {
  std::vector<nn::Parameter*> all;
  for (const Weights* weights : {&gate_, &up_, &down_}) {
    for (const auto& weight : *weights) all.push_back(weight.get());
  }
  return all;
}

}  // namespace ultra::expert_parallel
