#include "chapters/06_context_parallel/context_parallel_factory.hpp"

#include <algorithm>
#include <utility>

#include "common/base/errors.hpp"
#include "common/ops/sums/exact_sum.hpp"

namespace ultra::context_parallel {

ContextAttention::ContextAttention(const nn::BuildContext& context,
                                   std::unique_ptr<SequenceAttention> method,
                                   train::RankCounters* counters)
    : seq_len_(context.config.max_seq_len),
      window_(context.config.sliding_window),
      rope_(context.rope),
      method_(std::move(method)),
      counters_(counters) {}

AttentionScope ContextAttention::scope(const nn::Saved& saved) const {
  return {.seq_len = seq_len_,
          .places = saved.pass().places.get(),
          .window = window_,
          .counters = counters_};
}

std::vector<std::int32_t> ContextAttention::rotary_positions(const nn::Saved& saved) const {
  const auto& places = saved.pass().places;
  ensure(places && !places->positions.empty(), "the places of this rank's tokens");
  std::vector<std::int32_t> positions = places->positions;
  const auto last = static_cast<std::int32_t>(seq_len_ - 1);
  for (std::int32_t& position : positions) position = std::min(position, last);
  return positions;
}

Tensor ContextAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                 nn::Saved& saved) {
  const auto positions = rotary_positions(saved);
  ops::rope_into(query, *rope_, positions, ops::Rotation::kForward);
  ops::rope_into(key, *rope_, positions, ops::Rotation::kForward);
  return method_->forward({query, key, value}, scope(saved), saved);
}

nn::QkvGradients ContextAttention::backward(const Tensor& d_output, nn::Saved& saved) {
  const bool values_are_keys = saved.get("key").shares_storage(saved.get("value"));
  nn::QkvGradients gradients = method_->backward(d_output, scope(saved), saved);
  const DType dtype = d_output.dtype();
  if (ops::sums_by_trees(d_output.device())) {  // rounded as on one rank, which rotates behind
    gradients.d_query = cast(gradients.d_query, dtype);
    gradients.d_key = cast(gradients.d_key, dtype);
  }
  const auto positions = rotary_positions(saved);
  ops::rope_into(gradients.d_query, *rope_, positions, ops::Rotation::kBackward);
  ops::rope_into(gradients.d_key, *rope_, positions, ops::Rotation::kBackward);
  const bool one_sum = gradients.d_value.shares_storage(gradients.d_key) && values_are_keys;
  return {cast(gradients.d_query, dtype), cast(gradients.d_key, dtype),
          one_sum ? Tensor() : cast(gradients.d_value, dtype)};
}

std::unique_ptr<nn::AttentionCore> ContextParallelFactory::attention_core(
    const nn::BuildContext& context) {
  return std::make_unique<ContextAttention>(context, groups_.make_attention(), counters_);
}

}  // namespace ultra::context_parallel
