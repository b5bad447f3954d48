#include "chapters/08_expert_parallel/token_permutation.hpp"

#include <span>

namespace ultra::expert_parallel {
namespace {

/// The weight of a row; one without weights.
template <class T>
T weight_of(const Tensor& weights, std::size_t choice) {
  return weights.defined() ? weights.data<T>()[choice] : T{1};
}

}  // namespace

// [region expert_order]
ExpertOrder expert_order(const Tensor& destinations, std::size_t num_experts) {
  ExpertOrder order{.tokens = destinations.size(0),
                    .top_k = destinations.size(1),
                    .choices = {},
                    .rows_per_expert = std::vector<std::size_t>(num_experts, 0)};
  const std::span<const std::int32_t> experts = destinations.span<std::int32_t>();
  for (const std::int32_t expert : experts) {
    if (expert != kNowhere) ++order.rows_per_expert[static_cast<std::size_t>(expert)];
  }
  // Counting sort: where the next row of each expert goes.
  std::vector<std::size_t> next(num_experts, 0);
  std::size_t rows = 0;
  for (std::size_t e = 0; e < num_experts; ++e) {
    next[e] = rows;
    rows += order.rows_per_expert[e];
  }
  order.choices.resize(rows);
  for (std::size_t choice = 0; choice < experts.size(); ++choice) {
    if (experts[choice] == kNowhere) continue;
    order.choices[next[static_cast<std::size_t>(experts[choice])]++] = choice;
  }
  return order;
}
// [/region]

// [region permute]
Tensor to_expert_order(const Tensor& x, const Tensor& weights, const ExpertOrder& order) {
  const std::size_t features = x.size(1);
  Tensor rows = Tensor::empty(x.device(), {order.rows(), features}, x.dtype());
  dispatch_float(x.dtype(), [&]<class T>() {
    T* to = rows.data<T>();
    for (std::size_t row = 0; row < order.rows(); ++row, to += features) {
      const T* from = x.data<T>() + order.token_of(row) * features;
      const T weight = weight_of<T>(weights, order.choices[row]);
      for (std::size_t i = 0; i < features; ++i) to[i] = weight * from[i];
    }
  });
  return rows;
}

Tensor from_expert_order(const Tensor& rows, const Tensor& weights, const ExpertOrder& order) {
  const std::size_t features = rows.size(1);
  Tensor y = Tensor::zeros(rows.device(), {order.tokens, features}, rows.dtype());
  dispatch_float(rows.dtype(), [&]<class T>() {
    const T* from = rows.data<T>();
    for (std::size_t row = 0; row < order.rows(); ++row, from += features) {
      T* to = y.data<T>() + order.token_of(row) * features;
      const T weight = weight_of<T>(weights, order.choices[row]);
      for (std::size_t i = 0; i < features; ++i) to[i] += weight * from[i];
    }
  });
  return y;
}
// [/region]

}  // namespace ultra::expert_parallel
