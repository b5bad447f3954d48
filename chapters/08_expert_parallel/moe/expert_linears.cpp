#include "chapters/08_expert_parallel/moe/expert_linears.hpp"

#include <fmt/format.h>

#include <numeric>

#include "common/base/errors.hpp"

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

void grouped_matmul_into(const Tensor& out, const Tensor& a, std::span<const std::size_t> rows,
                         std::span<const Tensor> matrices, ops::Transpose transpose,
                         ops::Write write) {
  const std::size_t all = std::accumulate(rows.begin(), rows.end(), std::size_t{0});
  if (all != a.size(0) || rows.size() != matrices.size()) {
    throw ShapeError(fmt::format("grouped_matmul: {} groups of {} rows for {} matrices and {} rows",
                                 rows.size(), all, matrices.size(), a.size(0)));
  }
  std::size_t begin = 0;
  for (std::size_t g = 0; g < rows.size(); ++g) {
    const Range group{begin, begin + rows[g]};
    begin = group.end;
    if (rows[g] == 0) continue;
    ops::matmul_into(out.slice(0, group), a.slice(0, group), ops::Transpose::kNo, matrices[g],
                     transpose, write);
  }
}

Tensor grouped_matmul(const Tensor& a, std::span<const std::size_t> rows,
                      std::span<const Tensor> matrices, ops::Transpose transpose) {
  ensure(!matrices.empty(), "a group");
  const std::size_t n = matrices[0].size(transpose == ops::Transpose::kYes ? 0 : 1);
  Tensor out = Tensor::empty(a.device(), {a.size(0), n}, a.dtype());
  grouped_matmul_into(out, a, rows, matrices, transpose);
  return out;
}

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
