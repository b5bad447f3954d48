#include "chapters/05_tensor_sequence_parallel/vocabulary/vocabulary_layers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "chapters/05_tensor_sequence_parallel/vocabulary_parallel.hpp"
#include "common/ops/cross_entropy.hpp"
#include "common/ops/embedding.hpp"
#include "common/ops/sums/exact_sum.hpp"
#include "common/ops/token_check.hpp"
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
  const Tensor maxima = Tensor::empty(logits.device(), {tokens}, logits.dtype());
  for_each_row<T>(maxima, logits, vocabulary, [](std::size_t, std::span<const T> row) {
    T most = -std::numeric_limits<T>::infinity();
    for (const T logit : row) most = std::max(most, logit);
    return most;
  });
  tp.labeled("highest logit").all_reduce(maxima, ReduceOp::kMax).wait();
  Tensor log_sums = Tensor::empty(logits.device(), {tokens}, logits.dtype());
  const HostView<const T> most(maxima);
  for_each_row<T>(log_sums, logits, vocabulary, [&](std::size_t token, std::span<const T> row) {
    T sum = 0;
    for (const T logit : row) sum += std::exp(logit - most[token]);
    return sum;
  });
  tp.labeled("sum of exponentials").all_reduce(log_sums).wait();
  const HostView<T> all(log_sums, HostAccess::kReadWrite);
  for (std::size_t token = 0; token < tokens; ++token) {
    all[token] = std::log(all[token]) + most[token];
  }
  return log_sums;
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

double loss_on_device(const ops::LogitsOfPart& part, double normalizer, const Communicator& tp,
                      const Tensor& sum) {
  const Tensor& logits = part.logits;
  logits.slice(-1, {part.vocabulary.size(), logits.size(-1)}).fill(0.0);
  const Tensor highest = ops::highest_logits(part);
  tp.labeled("highest logit").all_reduce(highest, ReduceOp::kMax).wait();
  const Tensor sums = ops::exponentials_of_logits(part, highest);
  tp.labeled("sum of exponentials").all_reduce(sums).wait();
  if (sum.defined()) {
    ops::cross_entropy_of_parts(sum, part, highest, sums, normalizer, ops::Write::kAccumulate);
    return 0;
  }
  const std::size_t digits = ops::digits_of_sums(logits.device());
  const Tensor loss = Tensor::empty(logits.device(), {digits}, DType::kF64);
  ops::cross_entropy_of_parts(loss, part, highest, sums, normalizer, ops::Write::kOverwrite);
  return ops::rounded_sums(loss.to_vector(), digits).front();
}

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

Range vocabulary_of(std::size_t vocab_size, const Communicator& tp) {
  return TensorParallelLayout{.tp = tp.size()}.local_rows(vocab_size, tp.rank());
}

double VocabularyParallelLoss::forward(const Tensor& logits, const Tensor& targets,
                                       double normalizer, nn::Saved& saved) {
  ops::expect_targets(targets, vocab_size_);
  const Tensor wide = cast(logits, accumulation_dtype(logits.dtype()));  // softmax and loss in f32
  const Range vocabulary = vocabulary_of(vocab_size_, tp_);
  const double z_loss = saved.pass().z_loss;
  const Tensor log_sums = z_loss > 0 ? vocabulary_log_sums(wide, vocabulary, tp_) : Tensor();
  double loss =
      has_streams(logits.device().kind()) || ops::sums_by_trees(logits.device())
          ? loss_on_device({wide, targets, vocabulary}, normalizer, tp_, saved.pass().loss_sum)
          : vocabulary_parallel_cross_entropy(wide, targets, vocabulary, normalizer, tp_);
  if (z_loss > 0) {
    loss += add_vocabulary_z_loss(wide, targets, vocabulary, log_sums, z_loss, normalizer);
  }
  if (!wide.shares_storage(logits)) cast_into(logits, wide);
  saved.put("d_logits", logits);
  return loss;
}

Tensor VocabularyParallelLoss::backward(nn::Saved& saved) { return saved.take("d_logits"); }

Tensor VocabularyParallelEmbedding::forward(const Tensor& tokens, nn::Saved& saved) {
  ops::expect_token_ids("token", tokens, vocab_size_);
  saved.put("tokens", tokens);
  const Tensor part = ops::embedding_part(table_->value(), tokens, table_->shard()[0].begin);
  return region_->leave(part).wait();
}

void VocabularyParallelEmbedding::backward(const Tensor& d_y, nn::Saved& saved) {
  const Tensor d_all = region_->leave_backward(d_y).wait();
  table_->keep_for_grad(d_all);
  table_->add_grad([tokens = saved.take("tokens"), d_all, first = table_->shard()[0].begin](
                       const Tensor& grad, ops::Write write) {
    if (write == ops::Write::kOverwrite) grad.fill(0.0);
    ops::embedding_part_backward_into(grad, d_all, tokens, first);
  });
}

}  // namespace ultra::tensor_parallel
