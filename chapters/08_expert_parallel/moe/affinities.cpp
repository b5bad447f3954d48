#include "chapters/08_expert_parallel/moe/affinities.hpp"

#include <algorithm>
#include <cmath>

#include "common/tensor/host_view.hpp"

namespace ultra::expert_parallel {
namespace {

/// Calls fn(row, ..., columns) for each row of matrices of one shape: those of `to` may be written,
/// the others are read.
template <class Fn, class... Tensors>
void for_each_row(Fn&& fn, const Tensor& to, HostAccess access, const Tensors&... others) {
  const std::size_t columns = to.size(1);
  dispatch_float(to.dtype(), [&]<class T>() {
    const auto for_rows = [&](T* row, const auto&... from) {
      for (std::size_t i = 0; i < to.size(0); ++i) {
        fn(row + i * columns, (from.data() + i * columns)..., columns);
      }
    };
    const HostView<T> rows(to, access);
    for_rows(rows.data(), HostView<const T>(others)...);
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
      y, HostAccess::kWrite, logits);
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
      d_logits, HostAccess::kWrite, d_affinities, affinities);
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
      p, HostAccess::kWrite, affinities);
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
      d_affinities, HostAccess::kWrite, d_probabilities, affinities);
  return d_affinities;
}

Tensor log_sum_exp(const Tensor& logits) {
  Tensor sums = Tensor::empty(logits.device(), {logits.size(0)}, logits.dtype());
  dispatch_float(logits.dtype(), [&]<class T>() {
    const HostView<const T> rows(logits);
    const HostView<T> logs(sums, HostAccess::kWrite);
    for (std::size_t t = 0; t < logits.size(0); ++t) {
      logs[t] = log_sum_exp_of(rows.data() + t * logits.size(1), logits.size(1));
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
      d_logits, HostAccess::kReadWrite, logits);
}

}  // namespace ultra::expert_parallel
