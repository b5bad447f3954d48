#include "chapters/08_expert_parallel/device/expert_rows.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "chapters/08_expert_parallel/combine_weights.hpp"
#include "common/ops/weighted_rows.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::expert_parallel {
namespace {

std::vector<std::int32_t> tokens_of_rows(const ExpertOrder& order) {
  std::vector<std::int32_t> tokens(order.rows());
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    tokens[row] = static_cast<std::int32_t>(order.token_of(row));
  }
  return tokens;
}

/// [tokens, top_k] the rows of each token, in expert order; -1 behind them.
std::vector<std::int32_t> rows_of_tokens(const ExpertOrder& order) {
  std::vector<std::int32_t> rows(order.tokens * order.top_k, -1);
  std::vector<std::size_t> placed(order.tokens, 0);
  for (std::size_t row = 0; row < order.rows(); ++row) {
    const std::size_t token = order.token_of(row);
    rows[token * order.top_k + placed[token]++] = static_cast<std::int32_t>(row);
  }
  return rows;
}

/// [rows] the weight of each row, on the host.
Tensor weights_of_rows(const Tensor& weights, const ExpertOrder& order) {
  if (!weights.defined()) return {};
  Tensor of_rows = Tensor::empty(weights.device(), {order.rows()}, weights.dtype());
  dispatch_float(weights.dtype(), [&]<class T>() {
    std::ranges::transform(order.choices, of_rows.data<T>(),
                           [all = weights.data<T>()](std::size_t choice) { return all[choice]; });
  });
  return of_rows;
}

}  // namespace

Tensor to_expert_order_on_device(const Tensor& x, const Tensor& weights, const ExpertOrder& order) {
  return ops::take_rows(x, tokens_of_rows(order), weights_of_rows(weights, order));
}

Tensor from_expert_order_on_device(const Tensor& rows, const Tensor& weights,
                                   const ExpertOrder& order) {
  return ops::sum_rows(rows, rows_of_tokens(order), order.top_k, weights_of_rows(weights, order));
}

/// The scalar products stand for rows of one feature, whose tokens' gradients are one.
Tensor combine_weights_backward_on_device(const Tensor& d_y, const Tensor& rows,
                                          const ExpertOrder& order, const Routing& routing,
                                          const Tensor& affinities) {
  const Device& host = affinities.device();
  if (!has_numbers(rows.device().kind())) {
    static_cast<void>(unread_on_host(ops::dot_rows(rows, d_y, tokens_of_rows(order))));
    return Tensor::empty(host, affinities.shape(), affinities.dtype());
  }
  const Tensor products = ops::dot_rows(rows, d_y, tokens_of_rows(order)).to(host);
  const Tensor ones = Tensor::empty(host, {order.tokens, 1}, d_y.dtype());
  ones.fill(1.0);
  return combine_weights_backward(ones, products.view({order.rows(), 1}), order, routing,
                                  affinities);
}

}  // namespace ultra::expert_parallel
