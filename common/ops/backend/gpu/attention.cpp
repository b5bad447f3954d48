// Attention and its gradients.

#include <bit>
#include <cstdint>

#include "common/base/numeric.hpp"
#include "common/ops/attention.hpp"
#include "common/ops/backend/gpu/kernel_backend.hpp"
#include "common/ops/backend/gpu/kernel_choice.hpp"
#include "common/ops/backend/gpu/operands.hpp"
#include "kernels/generic/attention/attention.hpp"

namespace ultra::ops::gpu {
namespace {

/// @brief Sizes and mask of an attention, with the lists that kernels read on the device.
class SeenKeys {
 public:
  /// @brief Puts on the device what is there of lists.
  /// @param options  with all positions given.
  SeenKeys(const Tensor& query, const Tensor& key, const AttentionOptions& options);

  /// @brief What kernels take.
  [[nodiscard]] const generic::AttentionShape& shape() const { return shape_; }
  /// @brief The first key of each query; undefined without documents.
  [[nodiscard]] const Tensor& first_seen() const { return first_seen_; }
  /// @brief The queries' positions, where they are a list.
  [[nodiscard]] const Tensor& query_list() const { return query_positions_.list(); }
  /// @brief The keys' positions, where they are a list.
  [[nodiscard]] const Tensor& key_list() const { return key_positions_.list(); }

 private:
  DevicePositions query_positions_;
  DevicePositions key_positions_;
  Tensor first_seen_;
  generic::AttentionShape shape_;
};

SeenKeys::SeenKeys(const Tensor& query, const Tensor& key, const AttentionOptions& options)
    : query_positions_(query.device(), options.query_positions),
      key_positions_(query.device(), options.key_positions) {
  if (!options.first_seen.empty()) first_seen_ = upload(query.device(), options.first_seen);
  shape_ = {.batch = checked_cast<int>(query.size(0)),
            .query_seq = checked_cast<int>(query.size(1)),
            .key_seq = checked_cast<int>(key.size(1)),
            .heads = checked_cast<int>(query.size(2)),
            .kv_heads = checked_cast<int>(key.size(2)),
            .head_dim = checked_cast<int>(query.size(3)),
            .scale = options.scale,
            .is_causal = options.mask == Mask::kCausal,
            .query_positions = query_positions_.get(),
            .key_positions = key_positions_.get(),
            .first_seen = first_seen_.defined()
                              ? static_cast<const std::int32_t*>(first_seen_.address())
                              : nullptr};
}

/// The inputs of an attention; see ops::attention.
struct AttentionOperands {
  Tensor query;                     ///< [batch, query_seq, heads, head_dim]
  Tensor key;                       ///< [batch, key_seq, kv_heads, head_dim]
  Tensor value;                     ///< [batch, key_seq, kv_heads, head_dim]
  const AttentionOptions& options;  ///< with all positions given
};

/// What backward adds to them; see ops::attention_backward.
struct BackwardInputs {
  Tensor d_output;     ///< [batch, query_seq, heads, head_dim]
  Tensor output;       ///< [batch, query_seq, heads, head_dim]
  Tensor log_sum_exp;  ///< [batch, heads, query_seq]
};

/// The generic kernel's attention.
void attend_plainly(const AttentionResult& result, const AttentionOperands& in) {
  const SeenKeys seen(in.query, in.key, in.options);
  const auto launched =
      launch("attention",
             {in.query, in.key, in.value, seen.first_seen(), seen.query_list(), seen.key_list()},
             {result.output, result.log_sum_exp});
  launched.kernels().attention({.shape = seen.shape(),
                                .query = source(in.query),
                                .key = source(in.key),
                                .value = source(in.value),
                                .output = target(result.output),
                                .log_sum_exp = target(result.log_sum_exp)},
                               launched.queue());
}

/// The generic kernels' gradients.
void differentiate_plainly(const AttentionGradients& gradients, const AttentionOperands& in,
                           const BackwardInputs& from) {
  const SeenKeys seen(in.query, in.key, in.options);
  const Tensor& sums = from.log_sum_exp;
  const Tensor delta = Tensor::empty(sums.device(), sums.shape(), sums.dtype());
  const std::size_t queries = in.query.size(1);
  const std::size_t leaf = leaf_of(sums.device(), queries);
  Tensor nodes;  // of gradients, that wait for a neighbour
  if (leaf < queries) {
    const auto levels = static_cast<std::size_t>(std::bit_width(ceil_div(queries, leaf)));
    nodes = Tensor::empty(sums.device(), {levels, 2, in.key.numel()}, sums.dtype());
  }
  const auto launched =
      launch("attention_backward",
             {from.d_output, in.query, in.key, in.value, from.output, sums, seen.first_seen(),
              seen.query_list(), seen.key_list()},
             {gradients.d_query, gradients.d_key, gradients.d_value, delta, nodes});
  launched.kernels().attention_backward({.shape = seen.shape(),
                                         .d_output = source(from.d_output),
                                         .query = source(in.query),
                                         .key = source(in.key),
                                         .value = source(in.value),
                                         .output = source(from.output),
                                         .log_sum_exp = source(sums),
                                         .d_query = target(gradients.d_query),
                                         .d_key = target(gradients.d_key),
                                         .d_value = target(gradients.d_value),
                                         .delta = target(delta),
                                         .leaf = leaf,
                                         .nodes = nodes.defined() ? nodes.address() : nullptr},
                                        launched.queue());
}

/// How a ladder's kernels have heads: as layers do, [batch, seq, heads, head_dim], or [batch, heads, seq,
/// head_dim].
enum class Order { kTokensFirst, kHeadsFirst };

Order order_of(AttentionWay way) {
  return way == AttentionWay::kLadderF32 ? Order::kHeadsFirst : Order::kTokensFirst;
}
/// Of their gradients: with documents, no register is left for the other order.
Order order_of_gradients(AttentionWay way) {
  return way == AttentionWay::kDocumentsBf16 ? Order::kHeadsFirst : order_of(way);
}

/// A tensor as kernels read it, which copy 16 bytes at once.
Tensor as_read(const Tensor& x, Order order) {
  if (order == Order::kHeadsFirst) return x.transpose(1, 2).clone();
  const bool lies_right =
      x.is_contiguous() && reinterpret_cast<std::uintptr_t>(x.address()) % 16 == 0;
  return lies_right ? x : x.clone();
}

/// Where they write a result: there, or into room that put_back() copies from.
Tensor as_written(const Tensor& result, Order order) {
  if (order == Order::kTokensFirst) return result;
  return Tensor::empty(result.device(),
                       {result.size(0), result.size(2), result.size(1), result.size(3)},
                       result.dtype());
}

void put_back(const Tensor& result, const Tensor& written, Order order) {
  if (order == Order::kHeadsFirst) result.copy_from(written.transpose(1, 2));
}

/// [batch, seq, heads, head_dim] as one sequence of all: [1, batch * seq, heads, head_dim].
Tensor as_pack(const Tensor& x) { return x.view({1, x.size(0) * x.size(1), x.size(2), x.size(3)}); }

AttentionOperands as_pack(const AttentionOperands& in) {
  return {as_pack(in.query), as_pack(in.key), as_pack(in.value), in.options};
}

/// The sizes as the ladders take them.
kernels::attention::Shape ladder_shape(const AttentionOperands& in, Order order) {
  return {.batch = checked_cast<int>(in.query.size(0)),
          .kv_heads = checked_cast<int>(in.key.size(2)),
          .group = checked_cast<int>(in.query.size(2) / in.key.size(2)),
          .seq_len = checked_cast<int>(in.query.size(1)),
          .head_dim = checked_cast<int>(in.query.size(3)),
          .causal = in.options.mask == Mask::kCausal,
          .scale = static_cast<float>(in.options.scale),
          .tokens_first = order == Order::kTokensFirst};
}

/// The documents of a pack as kernels take them.
template <class Problem>
Problem documents_of(const decltype(Problem::pack)& pack, const Tensor& begins) {
  Problem of{};
  of.pack = pack;
  of.documents = checked_cast<int>(begins.size(0)) - 1;
  of.begins = integers(begins);
  return of;
}

/// Where documents begin, on the device, if the kernels of `way` want to know it.
Tensor upload_begins(const AttentionOperands& in, AttentionWay way) {
  if (way != AttentionWay::kDocumentsBf16) return {};
  return upload(in.query.device(), begins_of_documents(in.options));
}

/// The ladders' attention.
void attend_by_ladder(const AttentionResult& result, const AttentionOperands& in,
                      AttentionWay way) {
  const Tensor begins = upload_begins(in, way);
  const Order order = order_of(way);
  const Tensor q = as_read(in.query, order);
  const Tensor k = as_read(in.key, order);
  const Tensor v = as_read(in.value, order);
  const Tensor o = as_written(result.output, order);
  {
    const auto launched = launch("attention", {q, k, v, begins}, {o, result.log_sum_exp});
    const auto problem = [&]<class Problem, class T>() {
      Problem of{};
      of.shape = ladder_shape(in, order);
      of.q = elements<const T>(q);
      of.k = elements<const T>(k);
      of.v = elements<const T>(v);
      of.o = elements<T>(o);
      of.lse = elements<float>(result.log_sum_exp);
      return of;
    };
    const auto of_half = [&]<class Problem, class T>() {
      Problem of = problem.template operator()<Problem, T>();
      if (o.dtype() == DType::kF32) of.wide_o = elements<float>(o);
      return of;
    };
    const auto of_bf16 = [&] {
      return of_half.template operator()<kernels::attention_bf16::Problem, simt::bf16>();
    };
    const auto of_f16 = [&] {
      return of_half
          .template operator()<kernels::attention_bf16::ProblemOf<simt::half>, simt::half>();
    };
    const kernels::Table& table = launched.kernels();
    const bool is_f16 = q.dtype() == DType::kF16;
    if (way == AttentionWay::kLadderF32) {
      table.attention_f32(problem.template operator()<kernels::attention::Problem, float>(),
                          launched.queue());
    } else if (way == AttentionWay::kHopperHalf && o.dtype() == DType::kF32) {
      is_f16 ? table.attention_hopper_wide_f16(of_f16(), launched.queue())
             : table.attention_hopper_wide(of_bf16(), launched.queue());
    } else if (way == AttentionWay::kHopperHalf) {
      is_f16 ? table.attention_hopper_f16(of_f16(), launched.queue())
             : table.attention_hopper(of_bf16(), launched.queue());
    } else if (way == AttentionWay::kDocumentsBf16) {
      table.attention_documents(documents_of<kernels::attention_varlen::Problem>(of_bf16(), begins),
                                launched.queue());
    } else {
      is_f16 ? table.attention_f16(of_f16(), launched.queue())
             : table.attention_bf16(of_bf16(), launched.queue());
    }
  }
  put_back(result.output, o, order);
}

/// The same of documents, which lie behind one another in the sequences of a batch too.
void attend_to_documents(const AttentionResult& result, const AttentionOperands& in) {
  const Tensor& sums = result.log_sum_exp;
  const std::size_t heads = sums.size(1);
  const Tensor of_pack =
      Tensor::empty(sums.device(), {1, heads, in.query.size(0) * sums.size(2)}, sums.dtype());
  attend_by_ladder({as_pack(result.output), of_pack}, as_pack(in), AttentionWay::kDocumentsBf16);
  sums.copy_from(of_pack.view({heads, sums.size(0), sums.size(2)}).transpose(0, 1));
}

/// The ladders' gradients.
void differentiate_by_ladder(const AttentionGradients& gradients, const AttentionOperands& in,
                             const BackwardInputs& from, AttentionWay way) {
  const Order order = order_of_gradients(way);
  const Tensor q = as_read(in.query, order);
  const Tensor k = as_read(in.key, order);
  const Tensor v = as_read(in.value, order);
  const Tensor o = as_read(from.output, order);
  const Tensor d_o = as_read(from.d_output, order);
  const DType dtype = gradients.d_query.dtype();
  const Tensor d_q = as_written(gradients.d_query, order);
  const Tensor d_k = as_written(gradients.d_key, order);
  const Tensor d_v = as_written(gradients.d_value, order);
  const Tensor& sums = from.log_sum_exp;
  const Tensor delta = Tensor::empty(sums.device(), sums.shape(), sums.dtype());
  const Tensor begins = upload_begins(in, way);
  Tensor d_q_sums;  // of the kernel for Hopper, whose blocks add to it in turns
  Tensor turns;
  if (way == AttentionWay::kHopperHalf) {
    const kernels::attention::Shape shape = ladder_shape(in, order);
    d_q_sums = Tensor::empty(sums.device(), {kernels::attention_backward_bf16::d_q_sums_of(shape)},
                             DType::kF32);
    turns = Tensor::empty(sums.device(), {kernels::attention_backward_bf16::turns_of(shape)},
                          DType::kI32);
  }
  {
    const auto launched = launch("attention_backward", {q, k, v, o, d_o, sums, begins},
                                 {d_q, d_k, d_v, delta, d_q_sums, turns});
    const auto problem = [&]<class Problem, class T>() {
      Problem of{};
      of.shape = ladder_shape(in, order);
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
    namespace backward = kernels::attention_backward_bf16;
    const auto of_half = [&]<class Problem, class T>() {
      Problem of = problem.template operator()<Problem, T>();
      if (dtype == DType::kF32) {
        of.wide_o = elements<const float>(o);
        of.wide_d_q = elements<float>(d_q);
        of.wide_d_k = elements<float>(d_k);
        of.wide_d_v = elements<float>(d_v);
      }
      return of;
    };
    const auto in_order = [&]<class Problem, class T>() {
      Problem of = problem.template operator()<Problem, T>();
      of.d_q_sums = elements<float>(d_q_sums);
      of.turns = elements<unsigned>(turns);
      return of;
    };
    const auto of_bf16 = [&] {
      return of_half.template operator()<backward::Problem, simt::bf16>();
    };
    const kernels::Table& table = launched.kernels();
    const simt::Queue queue = launched.queue();
    const bool is_f16 = q.dtype() == DType::kF16;
    if (way == AttentionWay::kLadderF32) {
      table.attention_backward_f32(
          problem.template operator()<kernels::attention_backward::Problem, float>(), queue);
    } else if (way == AttentionWay::kHopperHalf) {
      is_f16
          ? table.attention_backward_hopper_f16(
                in_order.template operator()<backward::OrderedProblemOf<simt::half>, simt::half>(),
                queue)
          : table.attention_backward_hopper(
                in_order.template operator()<backward::OrderedProblem, simt::bf16>(), queue);
    } else if (way == AttentionWay::kDocumentsBf16) {
      table.attention_backward_documents(
          documents_of<kernels::attention_backward_varlen::Problem>(of_bf16(), begins), queue);
    } else {
      is_f16
          ? table.attention_backward_f16(
                of_half.template operator()<backward::ProblemOf<simt::half>, simt::half>(), queue)
          : table.attention_backward_bf16(of_bf16(), queue);
    }
  }
  put_back(gradients.d_query, d_q, order);
  put_back(gradients.d_key, d_k, order);
  put_back(gradients.d_value, d_v, order);
}

/// The same of documents, which lie behind one another in the sequences of a batch too.
void differentiate_documents(const AttentionGradients& gradients, const AttentionOperands& in,
                             const BackwardInputs& from) {
  const Tensor& sums = from.log_sum_exp;
  const Tensor of_pack =
      sums.transpose(0, 1).clone().view({1, sums.size(1), sums.size(0) * sums.size(2)});
  differentiate_by_ladder(
      {as_pack(gradients.d_query), as_pack(gradients.d_key), as_pack(gradients.d_value)},
      as_pack(in), {as_pack(from.d_output), as_pack(from.output), of_pack},
      AttentionWay::kDocumentsBf16);
}

}  // namespace

void KernelBackend::attention(const AttentionResult& result, const Tensor& query, const Tensor& key,
                              const Tensor& value, const AttentionOptions& options) const {
  const AttentionOperands in{query, key, value, options};
  const AttentionWay way =
      choose_attention(hardware_of(query.device()), query, key, result.output.dtype(), options);
  if (way == AttentionWay::kPlain) return attend_plainly(result, in);
  if (way == AttentionWay::kDocumentsBf16) return attend_to_documents(result, in);
  attend_by_ladder(result, in, way);
}

void KernelBackend::attention_backward(const AttentionGradients& gradients, const Tensor& d_output,
                                       const Tensor& query, const Tensor& key, const Tensor& value,
                                       const Tensor& output, const Tensor& log_sum_exp,
                                       const AttentionOptions& options) const {
  const AttentionOperands in{query, key, value, options};
  const BackwardInputs from{d_output, output, log_sum_exp};
  const DType result = gradients.d_query.dtype();
  AttentionWay way = choose_attention(hardware_of(query.device()), query, key, result, options);
  const bool fits = d_output.dtype() == query.dtype() && output.dtype() == result;
  if (way == AttentionWay::kPlain || !fits) {
    return differentiate_plainly(gradients, in, from);
  }
  if (result != query.dtype() && way == AttentionWay::kHopperHalf) way = AttentionWay::kLadderHalf;
  if (way == AttentionWay::kDocumentsBf16) return differentiate_documents(gradients, in, from);
  differentiate_by_ladder(gradients, in, from, way);
}

}  // namespace ultra::ops::gpu
