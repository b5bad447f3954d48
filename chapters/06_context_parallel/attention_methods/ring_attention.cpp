#include "chapters/06_context_parallel/attention_methods/sequence_attention.hpp"
#include "chapters/06_context_parallel/ring_backward.hpp"
#include "chapters/06_context_parallel/ring_forward.hpp"

namespace ultra::context_parallel {

PartialAttention rounded(const PartialAttention& whole, DType dtype) {
  return {.output = cast(whole.output, dtype), .log_sum_exp = whole.log_sum_exp};
}

void save_attention(const nn::Qkv& in, const PartialAttention& partial, nn::Saved& saved) {
  saved.put("query", in.query);
  saved.put("key", in.key);
  saved.put("value", in.value);
  saved.put("output", partial.output);
  saved.put("log_sum_exp", partial.log_sum_exp);
}

KeptAttention take_attention(nn::Saved& saved) {
  return {.in = {saved.take("query"), saved.take("key"), saved.take("value")},
          .partial = {saved.take("output"), saved.take("log_sum_exp")}};
}

Tensor RingAttention::forward(const nn::Qkv& in, const AttentionScope& scope, nn::Saved& saved) {
  const BlockAttention queries(in.query, ring_.own(), scope);
  const PartialAttention partial = rounded(
      ring_forward(queries, {.key = in.key, .value = in.value, .chunks = ring_.own()}, ring_),
      in.query.dtype());
  save_attention(in, partial, saved);
  return partial.output;
}

nn::QkvGradients RingAttention::backward(const Tensor& d_output, const AttentionScope& scope,
                                         nn::Saved& saved) {
  const auto [in, partial] = take_attention(saved);
  const BlockAttention queries(in.query, ring_.own(), scope);
  return ring_backward(queries, d_output, partial,
                       {.key = in.key, .value = in.value, .chunks = ring_.own()}, ring_);
}

}  // namespace ultra::context_parallel
