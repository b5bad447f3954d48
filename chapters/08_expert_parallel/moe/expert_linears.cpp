#include "chapters/08_expert_parallel/moe/expert_linears.hpp"

#include "chapters/08_expert_parallel/moe/grouped_matmul.hpp"

namespace ultra::expert_parallel {
namespace {

using ops::Transpose;
using ops::Write;
using Weights = GroupedExpertLinears::Weights;

std::vector<Tensor> values_of(const Weights& weights) {
  std::vector<Tensor> values;
  for (const auto& weight : weights) values.push_back(weight->value());
  return values;
}

/// Adds d_y^T x of its rows to each weight's gradient, the last expert's first.
void add_grads(const Weights& weights, std::span<const std::size_t> rows, const Tensor& d_y,
               const Tensor& x) {
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

std::vector<Tensor> GroupedExpertLinears::forward(const Tensor& x,
                                                  std::span<const std::size_t> rows,
                                                  nn::Saved& saved) {
  std::vector<Tensor> outputs;
  for (const Weights& weights : maps_) {
    outputs.push_back(grouped_matmul(x, rows, values_of(weights), Transpose::kYes));
  }
  saved.put("input", x);
  return outputs;
}

Tensor GroupedExpertLinears::backward(std::span<const Tensor> d_y,
                                      std::span<const std::size_t> rows, nn::Saved& saved) {
  const Tensor x = saved.take("input");
  Tensor d_x = grouped_matmul(d_y.back(), rows, values_of(maps_.back()), Transpose::kNo);
  for (std::size_t m = maps_.size() - 1; m-- > 0;) {
    grouped_matmul_into(d_x, d_y[m], rows, values_of(maps_[m]), Transpose::kNo, Write::kAccumulate);
  }
  for (std::size_t m = maps_.size(); m-- > 0;) add_grads(maps_[m], rows, d_y[m], x);
  return d_x;
}

std::vector<nn::Parameter*> GroupedExpertLinears::parameters() {
  std::vector<nn::Parameter*> all;
  for (const Weights& weights : maps_) {
    for (const auto& weight : weights) all.push_back(weight.get());
  }
  return all;
}

}  // namespace ultra::expert_parallel
