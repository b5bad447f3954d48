#include "chapters/08_expert_parallel/moe/affinities.hpp"

#include <algorithm>
#include <cmath>

namespace ultra::expert_parallel {
namespace {

/// Calls fn<T>(row, ...) for each row of matrices of one shape.
template <class Fn, class... Tensors>
void for_each_row(Fn&& fn, const Tensor& first, const Tensors&... others) {
  const std::size_t columns = first.size(1);
  dispatch_float(first.dtype(), [&]<class T>() {
    for (std::size_t row = 0; row < first.size(0); ++row) {
      fn(first.template data<T>() + row * columns, (others.template data<T>() + row * columns)...,
         columns);
    }
  });
}

Tensor like(const Tensor& x) { return Tensor::empty(x.device(), x.shape(), x.dtype()); }

template <class T>
T log_sum_exp_of(const T* logits, std::size_t count) {
  const T highest = *std::max_element(logits, logits + count);
  T sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::exp(logits[i] - highest);
  return highest + std::log(sum);
}

template <class T>
T dot(const T* a, const T* b, std::size_t count) {
  T sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

template <class T>
T sum_of(const T* values, std::size_t count) {
  T sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += values[i];
  return sum;
}

void softmax_row(auto* y, const auto* logits, std::size_t count) {
  const auto log_sum = log_sum_exp_of(logits, count);
  for (std::size_t i = 0; i < count; ++i) y[i] = std::exp(logits[i] - log_sum);
}

void sigmoid_row(auto* y, const auto* logits, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = 1 / (1 + std::exp(-logits[i]));
}

}  // namespace

Tensor affinities_of(const Tensor& logits, RouterKind kind) {
  Tensor y = like(logits);
  for_each_row(
      [kind](auto* to, const auto* from, std::size_t experts) {
        if (kind == RouterKind::kSoftmax) return softmax_row(to, from, experts);
        sigmoid_row(to, from, experts);
      },
      y, logits);
  return y;
}

Tensor affinities_backward(const Tensor& d_affinities, const Tensor& affinities, RouterKind kind) {
  Tensor d_logits = like(affinities);
  for_each_row(
      [kind](auto* to, const auto* d_a, const auto* a, std::size_t experts) {
        // Softmax: a (d_a - <d_a, a>); sigmoid: a (1 - a) d_a.
        const auto shared = kind == RouterKind::kSoftmax ? dot(d_a, a, experts) : 0;
        for (std::size_t e = 0; e < experts; ++e) {
          to[e] =
              kind == RouterKind::kSoftmax ? a[e] * (d_a[e] - shared) : a[e] * (1 - a[e]) * d_a[e];
        }
      },
      d_logits, d_affinities, affinities);
  return d_logits;
}

Tensor probabilities_of(const Tensor& affinities, RouterKind kind) {
  if (kind == RouterKind::kSoftmax) return affinities;
  Tensor p = like(affinities);
  for_each_row(
      [](auto* to, const auto* a, std::size_t experts) {
        const auto sum = sum_of(a, experts);
        for (std::size_t e = 0; e < experts; ++e) to[e] = a[e] / sum;
      },
      p, affinities);
  return p;
}

Tensor probabilities_backward(const Tensor& d_probabilities, const Tensor& affinities,
                              RouterKind kind) {
  if (kind == RouterKind::kSoftmax) return d_probabilities;
  Tensor d_affinities = like(affinities);
  for_each_row(
      [](auto* to, const auto* d_p, const auto* a, std::size_t experts) {
        const auto sum = sum_of(a, experts);
        const auto shared = dot(d_p, a, experts) / sum;
        for (std::size_t e = 0; e < experts; ++e) to[e] = (d_p[e] - shared) / sum;
      },
      d_affinities, d_probabilities, affinities);
  return d_affinities;
}

Tensor log_sum_exp(const Tensor& logits) {
  Tensor sums = Tensor::empty(logits.device(), {logits.size(0)}, logits.dtype());
  dispatch_float(logits.dtype(), [&]<class T>() {
    for (std::size_t t = 0; t < logits.size(0); ++t) {
      sums.data<T>()[t] = log_sum_exp_of(logits.data<T>() + t * logits.size(1), logits.size(1));
    }
  });
  return sums;
}

void add_z_loss_gradient(const Tensor& d_logits, const Tensor& logits, double scale) {
  for_each_row(
      [scale](auto* to, const auto* from, std::size_t experts) {
        const auto log_sum = log_sum_exp_of(from, experts);
        const auto factor = static_cast<decltype(log_sum)>(2 * scale) * log_sum;
        for (std::size_t e = 0; e < experts; ++e) to[e] += factor * std::exp(from[e] - log_sum);
      },
      d_logits, logits);
}

}  // namespace ultra::expert_parallel
