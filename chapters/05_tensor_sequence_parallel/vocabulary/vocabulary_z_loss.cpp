#include "chapters/05_tensor_sequence_parallel/vocabulary/vocabulary_z_loss.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "common/ops/cross_entropy.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::tensor_parallel {
namespace {

/// Writes of(row) for each token's row of this rank's logits.
template <class T, class Fn>
void for_each_row(const Tensor& result, const Tensor& logits, Range vocabulary, const Fn& of) {
  const std::size_t columns = logits.size(-1);
  const HostView<const T> rows(logits);
  const HostView<T> results(result, HostAccess::kReadWrite);
  for (std::size_t token = 0; token < results.size(); ++token) {
    results[token] =
        of(token, std::span<const T>(rows.span()).subspan(token * columns, vocabulary.size()));
  }
}

template <class T>
Tensor log_sums_of(const Tensor& logits, Range vocabulary, const Communicator& tp) {
  const std::size_t tokens = logits.numel() / logits.size(-1);
  const Tensor highest = Tensor::empty(logits.device(), {tokens}, logits.dtype());
  for_each_row<T>(highest, logits, vocabulary, [](std::size_t, std::span<const T> row) {
    T most = -std::numeric_limits<T>::infinity();
    for (const T logit : row) most = std::max(most, logit);
    return most;
  });
  tp.labeled("highest logit").all_reduce(highest, ReduceOp::kMax).wait();
  Tensor sums = Tensor::empty(logits.device(), {tokens}, logits.dtype());
  const HostView<const T> most(highest);
  for_each_row<T>(sums, logits, vocabulary, [&](std::size_t token, std::span<const T> row) {
    T sum = 0;
    for (const T logit : row) sum += std::exp(logit - most[token]);
    return sum;
  });
  tp.labeled("sum of exponentials").all_reduce(sums).wait();
  const HostView<T> all(sums, HostAccess::kReadWrite);
  for (std::size_t token = 0; token < tokens; ++token) {
    all[token] = std::log(all[token]) + most[token];
  }
  return sums;
}

/// The cross-entropy's gradient is (softmax - one_hot) / normalizer, so that softmax / normalizer is
/// that, and one token's share more at the target.
template <class T>
double add_z_loss(const Tensor& d_logits, std::span<const std::int32_t> targets, Range vocabulary,
                  const Tensor& log_sums, double weight, double normalizer) {
  const std::size_t columns = d_logits.size(-1);
  const HostView<T> gradients(d_logits, HostAccess::kReadWrite);
  const HostView<const T> log_sum(log_sums);
  double loss = 0;
  for (std::size_t token = 0; token < targets.size(); ++token) {
    if (targets[token] == ops::kNoTarget) continue;
    const auto z = static_cast<double>(log_sum[token]);
    loss += weight * z * z;
    const T factor = static_cast<T>(2 * weight * z);
    const std::span<T> row = gradients.span().subspan(token * columns, vocabulary.size());
    for (T& gradient : row) gradient += factor * gradient;
    const std::size_t own = static_cast<std::size_t>(targets[token]) - vocabulary.begin;
    if (own < row.size()) row[own] += factor * static_cast<T>(1.0 / normalizer);
  }
  return loss / normalizer;
}

}  // namespace

Tensor vocabulary_log_sums(const Tensor& logits, Range vocabulary, const Communicator& tp) {
  return dispatch_float(logits.dtype(),
                        [&]<class T>() { return log_sums_of<T>(logits, vocabulary, tp); });
}

double add_vocabulary_z_loss(const Tensor& d_logits, const Tensor& targets, Range vocabulary,
                             const Tensor& log_sums, double weight, double normalizer) {
  const HostView<const std::int32_t> ids(targets);
  return dispatch_float(d_logits.dtype(), [&]<class T>() {
    return add_z_loss<T>(d_logits, ids.span(), vocabulary, log_sums, weight, normalizer);
  });
}

}  // namespace ultra::tensor_parallel
