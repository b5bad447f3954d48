#include "chapters/05_tensor_sequence_parallel/vocabulary_parallel.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "common/ops/cross_entropy.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::tensor_parallel {
namespace {

template <class T>
double cross_entropy(const Tensor& logits, const Tensor& targets, Range vocabulary,
                     double normalizer, const Communicator& tp) {
  const std::size_t tokens = targets.numel();
  const std::size_t columns = logits.size(-1);
  const HostView<const std::int32_t> ids(targets);
  const HostView<T> rows(logits, HostAccess::kReadWrite);
  const auto row_of = [&, all = rows.span()](std::size_t token) {
    return all.subspan(token * columns, vocabulary.size());
  };
  // 1. The highest logit of each token, over all ranks: the exponentials must share one.
  const Tensor highest = Tensor::empty(logits.device(), {tokens}, logits.dtype());
  {
    const HostView<T> of_own(highest, HostAccess::kWrite);
    for (std::size_t token = 0; token < tokens; ++token) {
      of_own[token] = -std::numeric_limits<T>::infinity();
      for (const T logit : row_of(token)) of_own[token] = std::max(of_own[token], logit);
    }
  }
  tp.labeled("highest logit").all_reduce(highest, ReduceOp::kMax).wait();
  const HostView<const T> highest_of(highest);
  // 2. The sum of all exponentials, and the target's logit, which one rank has.
  const Tensor both = Tensor::zeros(logits.device(), {2, tokens}, logits.dtype());
  const auto own_target = [&](std::size_t token) {  // outside of [0, size) if another rank has it
    return static_cast<std::size_t>(ids[token]) - vocabulary.begin;
  };
  {
    const HostView<T> of_own(both, HostAccess::kReadWrite);
    const std::span<T> sum = of_own.span().first(tokens);
    const std::span<T> target_logit = of_own.span().last(tokens);
    for (std::size_t token = 0; token < tokens; ++token) {
      const std::span<T> row = row_of(token);
      if (own_target(token) < row.size()) target_logit[token] = row[own_target(token)];
      for (T& logit : row) {
        logit = std::exp(logit - highest_of[token]);
        sum[token] += logit;
      }
    }
  }
  tp.labeled("sum of exponentials").all_reduce(both).wait();
  const HostView<const T> sums(both);
  const std::span<const T> sum = sums.span().first(tokens);
  const std::span<const T> target_logit = sums.span().last(tokens);
  // 3. Loss and gradient, without another word.
  const T per_token = static_cast<T>(1.0 / normalizer);
  double loss = 0;
  for (std::size_t token = 0; token < tokens; ++token) {
    if (ids[token] == ops::kNoTarget) {
      std::ranges::fill(row_of(token), T(0));
      continue;
    }
    loss += std::log(static_cast<double>(sum[token])) + static_cast<double>(highest_of[token]) -
            static_cast<double>(target_logit[token]);
    const std::span<T> row = row_of(token);
    for (T& probability : row) probability *= per_token / sum[token];
    if (own_target(token) < row.size()) row[own_target(token)] -= per_token;
  }
  return loss / normalizer;
}

}  // namespace

double vocabulary_parallel_cross_entropy(const Tensor& logits, const Tensor& targets,
                                         Range vocabulary, double normalizer,
                                         const Communicator& tp) {
  // What pads the vocabulary has no part in the loss.
  logits.slice(-1, {vocabulary.size(), logits.size(-1)}).fill(0.0);
  return dispatch_float(logits.dtype(), [&]<class T>() {
    return cross_entropy<T>(logits, targets, vocabulary, normalizer, tp);
  });
}

}  // namespace ultra::tensor_parallel
