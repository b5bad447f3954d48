#pragma once
/// @file
/// The ways of attention and of its gradients, for the sources that instantiate KernelBackend.

#include "common/base/numeric.hpp"
#include "common/ops/backend/gpu/attention_operands.hpp"
#include "common/ops/backend/gpu/choose.hpp"
#include "common/ops/backend/gpu/operands.hpp"
#include "kernels/attention/attention.hpp"
#include "kernels/attention_backward/attention_backward.hpp"
#include "kernels/attention_backward_bf16/attention_backward_bf16.hpp"
#include "kernels/attention_bf16/attention_bf16.hpp"
#include "kernels/plain/attention.hpp"

namespace ultra::ops::gpu {

/// @brief The inputs of an attention; see ops::attention.
struct AttentionInputs {
  const Tensor& query;              ///< [batch, query_seq, heads, head_dim]
  const Tensor& key;                ///< [batch, key_seq, kv_heads, head_dim]
  const Tensor& value;              ///< [batch, key_seq, kv_heads, head_dim]
  const AttentionOptions& options;  ///< with all positions given
};

/// @brief What backward adds to them; see ops::attention_backward.
struct BackwardInputs {
  const Tensor& d_output;     ///< [batch, query_seq, heads, head_dim]
  const Tensor& output;       ///< [batch, query_seq, heads, head_dim]
  const Tensor& log_sum_exp;  ///< [batch, heads, query_seq]
};

/// @brief The plain kernel's attention.
template <simt::Side side>
void attend_plainly(const AttentionResult& result, const AttentionInputs& in) {
  const SeenKeys seen(in.query, in.key, in.options);
  const auto launched =
      launch("attention",
             {in.query, in.key, in.value, seen.first_seen(), seen.query_list(), seen.key_list()},
             {result.output, result.log_sum_exp});
  plain::attention<side>({.shape = seen.shape(),
                          .query = source(in.query),
                          .key = source(in.key),
                          .value = source(in.value),
                          .output = target(result.output),
                          .log_sum_exp = target(result.log_sum_exp)},
                         launched.queue());
}

/// @brief The plain kernels' gradients.
template <simt::Side side>
void differentiate_plainly(const AttentionGradients& gradients, const AttentionInputs& in,
                           const BackwardInputs& from) {
  const SeenKeys seen(in.query, in.key, in.options);
  const Tensor& sums = from.log_sum_exp;
  const Tensor delta = Tensor::empty(sums.device(), sums.shape(), sums.dtype());
  const auto launched = launch("attention_backward",
                               {from.d_output, in.query, in.key, in.value, from.output, sums,
                                seen.first_seen(), seen.query_list(), seen.key_list()},
                               {gradients.d_query, gradients.d_key, gradients.d_value, delta});
  plain::attention_backward<side>({.shape = seen.shape(),
                                   .d_output = source(from.d_output),
                                   .query = source(in.query),
                                   .key = source(in.key),
                                   .value = source(in.value),
                                   .output = source(from.output),
                                   .log_sum_exp = source(sums),
                                   .d_query = target(gradients.d_query),
                                   .d_key = target(gradients.d_key),
                                   .d_value = target(gradients.d_value),
                                   .delta = target(delta)},
                                  launched.queue());
}

/// @brief [batch, seq, heads, head_dim] as the ladders have it: [batch, heads, seq, head_dim].
[[nodiscard]] inline Tensor heads_first(const Tensor& x) { return x.transpose(1, 2).clone(); }

/// @brief Room for the ladders' counterpart of x.
[[nodiscard]] inline Tensor room_heads_first(const Tensor& x) {
  return Tensor::empty(x.device(), {x.size(0), x.size(2), x.size(1), x.size(3)}, x.dtype());
}

/// @brief The sizes as the ladders take them.
[[nodiscard]] inline kernels::attention::Shape ladder_shape(const AttentionInputs& in) {
  return {.batch = checked_cast<int>(in.query.size(0)),
          .kv_heads = checked_cast<int>(in.key.size(2)),
          .group = checked_cast<int>(in.query.size(2) / in.key.size(2)),
          .seq_len = checked_cast<int>(in.query.size(1)),
          .head_dim = checked_cast<int>(in.query.size(3)),
          .causal = in.options.mask == Mask::kCausal,
          .scale = static_cast<float>(in.options.scale)};
}

/// @brief The ladders' attention.
template <simt::Side side>
void attend_by_ladder(const AttentionResult& result, const AttentionInputs& in, AttentionWay way) {
  const Tensor q = heads_first(in.query);
  const Tensor k = heads_first(in.key);
  const Tensor v = heads_first(in.value);
  const Tensor o = room_heads_first(in.query);
  {
    const auto launched = launch("attention", {q, k, v}, {o, result.log_sum_exp});
    const auto problem = [&]<class Problem, class T>() {
      Problem of{};
      of.shape = ladder_shape(in);
      of.q = elements<const T>(q);
      of.k = elements<const T>(k);
      of.v = elements<const T>(v);
      of.o = elements<T>(o);
      of.lse = elements<float>(result.log_sum_exp);
      return of;
    };
    const auto of_f32 = [&] {
      return problem.template operator()<kernels::attention::Problem, float>();
    };
    const auto of_bf16 = [&] {
      return problem.template operator()<kernels::attention_bf16::Problem, simt::bf16>();
    };
    if (way == AttentionWay::kLadderF32) {
      kernels::attention::flash_grouped<side>(of_f32(), launched.queue());
    } else if (side == simt::Side::kGpu && way == AttentionWay::kHopperBf16) {
      if constexpr (side == simt::Side::kGpu) {
        kernels::attention_bf16::ping_pong<side>(of_bf16(), launched.queue());
      }
    } else {
      kernels::attention_bf16::pipelined<side>(of_bf16(), launched.queue());
    }
  }
  result.output.copy_from(o.transpose(1, 2));
}

/// @brief The ladders' gradients.
template <simt::Side side>
void differentiate_by_ladder(const AttentionGradients& gradients, const AttentionInputs& in,
                             const BackwardInputs& from, AttentionWay way) {
  const Tensor q = heads_first(in.query);
  const Tensor k = heads_first(in.key);
  const Tensor v = heads_first(in.value);
  const Tensor o = heads_first(from.output);
  const Tensor d_o = heads_first(from.d_output);
  const Tensor d_q = room_heads_first(in.query);
  const Tensor d_k = room_heads_first(in.key);
  const Tensor d_v = room_heads_first(in.key);
  const Tensor& sums = from.log_sum_exp;
  const Tensor delta = Tensor::empty(sums.device(), sums.shape(), sums.dtype());
  {
    const auto launched =
        launch("attention_backward", {q, k, v, o, d_o, sums}, {d_q, d_k, d_v, delta});
    const auto problem = [&]<class Problem, class T>() {
      Problem of{};
      of.shape = ladder_shape(in);
      of.q = elements<const T>(q);
      of.k = elements<const T>(k);
      of.v = elements<const T>(v);
      of.o = elements<const T>(o);
      of.lse = elements<const float>(sums);
      of.d_o = elements<const T>(d_o);
      of.delta = elements<float>(delta);
      of.d_q = elements<T>(d_q);
      of.d_k = elements<T>(d_k);
      of.d_v = elements<T>(d_v);
      return of;
    };
    if (way == AttentionWay::kLadderF32) {
      kernels::attention_backward::split<side>(
          problem.template operator()<kernels::attention_backward::Problem, float>(),
          launched.queue());
    } else {
      kernels::attention_backward_bf16::tensor_cores<side>(
          problem.template operator()<kernels::attention_backward_bf16::Problem, simt::bf16>(),
          launched.queue());
    }
  }
  gradients.d_query.copy_from(d_q.transpose(1, 2));
  gradients.d_key.copy_from(d_k.transpose(1, 2));
  gradients.d_value.copy_from(d_v.transpose(1, 2));
}

/// @brief Attention in the way that the table chooses.
template <simt::Side side>
void attend(const AttentionResult& result, const AttentionInputs& in) {
  const AttentionWay way = choose_attention(hardware_of(in.query.device()), in.query, in.key,
                                            result.output.dtype(), in.options);
  if (way == AttentionWay::kPlain) return attend_plainly<side>(result, in);
  attend_by_ladder<side>(result, in, way);
}

/// @brief The gradients of attention in the way that the table chooses.
template <simt::Side side>
void differentiate(const AttentionGradients& gradients, const AttentionInputs& in,
                   const BackwardInputs& from) {
  const Tensor& query = in.query;
  const AttentionWay way = choose_attention(hardware_of(query.device()), query, in.key,
                                            gradients.d_query.dtype(), in.options);
  const bool one_type =
      from.d_output.dtype() == query.dtype() && from.output.dtype() == query.dtype();
  if (way == AttentionWay::kPlain || !one_type) {
    return differentiate_plainly<side>(gradients, in, from);
  }
  differentiate_by_ladder<side>(gradients, in, from, way);
}

}  // namespace ultra::ops::gpu
