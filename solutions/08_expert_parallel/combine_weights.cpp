#include "chapters/08_expert_parallel/combine_weights.hpp"

#include <cstdint>
#include <vector>

#include "common/tensor/host_view.hpp"

namespace ultra::expert_parallel {
namespace {

/// [tokens * top_k] What each weight is multiplied by in the loss; zeros for what was dropped.
template <class T>
std::vector<T> weight_gradients(const Tensor& d_y, const Tensor& rows, const ExpertOrder& order) {
  const std::size_t features = rows.size(1);
  std::vector<T> d_weights(order.tokens * order.top_k, T{0});
  const HostView<const T> of_rows(rows);
  const HostView<const T> of_tokens(d_y);
  const T* output = of_rows.data();
  for (std::size_t row = 0; row < order.rows(); ++row, output += features) {
    const T* gradient = of_tokens.data() + order.token_of(row) * features;
    T sum = 0;
    for (std::size_t i = 0; i < features; ++i) sum += gradient[i] * output[i];
    d_weights[order.choices[row]] = sum;
  }
  return d_weights;
}

// [region normalised]
/// w_k = a_k / sum of a: the sum's gradient is shared by all chosen affinities.
template <class T>
void through_the_sum(const T* d_weights, const T* weights, const std::int32_t* experts,
                     std::size_t top_k, const T* affinities, T* d_affinities) {
  if (top_k == 1) {  // the weight is the affinity
    d_affinities[experts[0]] = d_weights[0];
    return;
  }
  T sum = 0;
  T shared = 0;
  for (std::size_t k = 0; k < top_k; ++k) {
    sum += affinities[experts[k]];
    shared += d_weights[k] * weights[k];
  }
  for (std::size_t k = 0; k < top_k; ++k) d_affinities[experts[k]] = (d_weights[k] - shared) / sum;
}
// [/region]

}  // namespace

Tensor combine_weights_backward(const Tensor& d_y, const Tensor& rows, const ExpertOrder& order,
                                const Routing& routing, const Tensor& affinities) {
  Tensor d_affinities = Tensor::zeros(affinities.device(), affinities.shape(), affinities.dtype());
  const std::size_t experts = affinities.size(1);
  dispatch_float(affinities.dtype(), [&]<class T>() {
    const std::vector<T> d_weights = weight_gradients<T>(d_y, rows, order);
    const HostView<const T> weights(routing.weights);
    const HostView<const std::int32_t> chosen(routing.experts);
    const HostView<const T> of_tokens(affinities);
    const HostView<T> gradients(d_affinities, HostAccess::kReadWrite);
    for (std::size_t t = 0; t < order.tokens; ++t) {
      const std::size_t first = t * order.top_k;
      through_the_sum(d_weights.data() + first, weights.data() + first, chosen.data() + first,
                      order.top_k, of_tokens.data() + t * experts, gradients.data() + t * experts);
    }
  });
  return d_affinities;
}

}  // namespace ultra::expert_parallel
