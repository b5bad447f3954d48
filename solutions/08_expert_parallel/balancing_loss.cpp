#include "chapters/08_expert_parallel/balancing_loss.hpp"

#include "common/tensor/host_view.hpp"

namespace ultra::expert_parallel {
namespace {

// [region scale]
/// alpha E / (K T) choices / T / sequences, but for the choices: by what a choice of an expert and
/// a token's probability of it are multiplied.
double scale_of(const BalancingTerm& term, std::size_t experts) {
  const auto tokens = static_cast<double>(term.seq_len);
  return term.coefficient * static_cast<double>(experts) /
         (static_cast<double>(term.top_k) * tokens * tokens * static_cast<double>(term.sequences));
}
// [/region]

}  // namespace

// [region loss]
double balancing_loss(const Tensor& probabilities, const Tensor& choices,
                      const BalancingTerm& term) {
  const std::size_t tokens = probabilities.size(1);
  const std::size_t experts = probabilities.size(2);
  double sum = 0;
  dispatch_float(probabilities.dtype(), [&]<class T>() {
    const HostView<const T> of_tokens(probabilities);
    const HostView<const T> of_sequences(choices);
    const T* p = of_tokens.data();
    for (std::size_t s = 0; s < probabilities.size(0); ++s) {
      const T* chosen = of_sequences.data() + s * experts;
      for (std::size_t t = 0; t < tokens; ++t, p += experts) {
        for (std::size_t e = 0; e < experts; ++e) sum += static_cast<double>(chosen[e] * p[e]);
      }
    }
  });
  return scale_of(term, experts) * sum;
}

Tensor balancing_loss_backward(const Tensor& choices, std::size_t tokens,
                               const BalancingTerm& term) {
  const std::size_t sequences = choices.size(0);
  const std::size_t experts = choices.size(1);
  const double scale = scale_of(term, experts);
  Tensor d_p = Tensor::empty(choices.device(), {sequences, tokens, experts}, choices.dtype());
  dispatch_float(choices.dtype(), [&]<class T>() {
    const HostView<const T> of_sequences(choices);
    const HostView<T> gradients(d_p, HostAccess::kWrite);
    T* to = gradients.data();
    for (std::size_t s = 0; s < sequences; ++s) {
      const T* chosen = of_sequences.data() + s * experts;
      for (std::size_t t = 0; t < tokens; ++t) {
        for (std::size_t e = 0; e < experts; ++e) *to++ = static_cast<T>(scale) * chosen[e];
      }
    }
  });
  return d_p;
}
// [/region]

}  // namespace ultra::expert_parallel
