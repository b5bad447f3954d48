#include "chapters/08_expert_parallel/token_permutation.hpp"

#include <optional>

#include "common/tensor/host_view.hpp"

namespace ultra::expert_parallel {
namespace {

/// The weight of each choice; one without weights.
template <class T>
class ChoiceWeights {
 public:
  explicit ChoiceWeights(const Tensor& weights) {
    if (weights.defined()) weights_.emplace(weights);
  }
  T operator[](std::size_t choice) const { return weights_ ? (*weights_)[choice] : T{1}; }

 private:
  std::optional<HostView<const T>> weights_;
};

}  // namespace

// [region expert_order]
ExpertOrder expert_order(const Tensor& destinations, std::size_t num_experts) {
  ExpertOrder order{.tokens = destinations.size(0),
                    .top_k = destinations.size(1),
                    .choices = {},
                    .rows_per_expert = std::vector<std::size_t>(num_experts, 0)};
  const HostView<const std::int32_t> experts(destinations);
  for (const std::int32_t expert : experts) {
    if (expert != kDropped) ++order.rows_per_expert[static_cast<std::size_t>(expert)];
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
    if (experts[choice] == kDropped) continue;
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
    const HostView<const T> of_tokens(x);
    const HostView<T> of_rows(rows, HostAccess::kWrite);
    const ChoiceWeights<T> of_choices(weights);
    T* to = of_rows.data();
    for (std::size_t row = 0; row < order.rows(); ++row, to += features) {
      const T* from = of_tokens.data() + order.token_of(row) * features;
      const T weight = of_choices[order.choices[row]];
      for (std::size_t i = 0; i < features; ++i) to[i] = weight * from[i];
    }
  });
  return rows;
}

Tensor from_expert_order(const Tensor& rows, const Tensor& weights, const ExpertOrder& order) {
  const std::size_t features = rows.size(1);
  Tensor y = Tensor::zeros(rows.device(), {order.tokens, features}, rows.dtype());
  dispatch_float(rows.dtype(), [&]<class T>() {
    const HostView<const T> of_rows(rows);
    const HostView<T> of_tokens(y, HostAccess::kReadWrite);
    const ChoiceWeights<T> of_choices(weights);
    const T* from = of_rows.data();
    for (std::size_t row = 0; row < order.rows(); ++row, from += features) {
      T* to = of_tokens.data() + order.token_of(row) * features;
      const T weight = of_choices[order.choices[row]];
      for (std::size_t i = 0; i < features; ++i) to[i] += weight * from[i];
    }
  });
  return y;
}
// [/region]

}  // namespace ultra::expert_parallel
