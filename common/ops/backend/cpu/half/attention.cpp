/// Attention of bf16 and f16: the heads that share a key/value head are converted and attended
/// together in f32, so that scores, probabilities and the sums of all blocks stay in f32.

#include <span>

#include "common/ops/backend/cpu/half/half_ops.hpp"
#include "common/ops/backend/cpu/kernels.hpp"

namespace ultra::ops::cpu::half {
namespace {

/// The query heads of one key/value head, in one sequence.
struct HeadGroup {
  std::size_t batch;      ///< which sequence
  std::size_t kv_head;    ///< which key/value head
  std::size_t per_kv;     ///< query heads that use it
  std::size_t num_heads;  ///< query heads of the sequence

  [[nodiscard]] Range query_heads() const { return {kv_head * per_kv, (kv_head + 1) * per_kv}; }
  [[nodiscard]] Range kv_heads() const { return {kv_head, kv_head + 1}; }
  /// First element of the group in [batch, heads, query_seq].
  [[nodiscard]] std::size_t first_row(std::size_t query_seq) const {
    return (batch * num_heads + kv_head * per_kv) * query_seq;
  }
};

/// One sequence's heads of [batch, seq, heads, head_dim].
Tensor part_of(const Tensor& x, std::size_t batch, Range heads) {
  return x.slice(0, {batch, batch + 1}).slice(2, heads);
}

/// A contiguous f32 copy.
Tensor wide(const Tensor& part) { return part.to(DType::kF32); }

AttentionOptions options_of(const AttentionOptions& options, std::size_t batch,
                            std::size_t query_seq) {
  AttentionOptions own = options;
  if (!own.first_seen.empty())
    own.first_seen = own.first_seen.subspan(batch * query_seq, query_seq);
  return own;
}

AttentionOperands<float> operands(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionOptions& options) {
  return {.extents = {.batch = 1,
                      .query_seq = query.size(1),
                      .key_seq = key.size(1),
                      .heads = query.size(2),
                      .kv_heads = 1,
                      .head_dim = query.size(3)},
          .query = query.data<float>(),
          .key = key.data<float>(),
          .value = value.data<float>(),
          .options = &options};
}

template <class Fn>
void for_each_group(const Tensor& query, const Tensor& key, const Fn& fn) {
  for (std::size_t b = 0; b < query.size(0); ++b) {
    for (std::size_t h = 0; h < key.size(2); ++h) {
      fn(HeadGroup{b, h, query.size(2) / key.size(2), query.size(2)});
    }
  }
}

}  // namespace

void attention(const AttentionResult& result, const Tensor& query, const Tensor& key,
               const Tensor& value, const AttentionOptions& options,
               decltype(&cpu::attention<float>) attend) {
  for_each_group(query, key, [&](const HeadGroup& group) {
    const Tensor q = wide(part_of(query, group.batch, group.query_heads()));
    const Tensor k = wide(part_of(key, group.batch, group.kv_heads()));
    const Tensor v = wide(part_of(value, group.batch, group.kv_heads()));
    const Tensor output = Tensor::empty(q.device(), q.shape(), DType::kF32);
    const AttentionOptions own = options_of(options, group.batch, q.size(1));
    attend(operands(q, k, v, own), q.device(), output.data<float>(),
           result.log_sum_exp.data<float>() + group.first_row(q.size(1)));
    cast_into(part_of(result.output, group.batch, group.query_heads()), output);
  });
}

void attention_backward(const AttentionGradients& gradients, const Tensor& d_output,
                        const Tensor& query, const Tensor& key, const Tensor& value,
                        const Tensor& output, const Tensor& log_sum_exp,
                        const AttentionOptions& options,
                        decltype(&cpu::attention_backward<float>) differentiate) {
  for_each_group(query, key, [&](const HeadGroup& group) {
    const Range heads = group.query_heads();
    const Tensor q = wide(part_of(query, group.batch, heads));
    const Tensor k = wide(part_of(key, group.batch, group.kv_heads()));
    const Tensor v = wide(part_of(value, group.batch, group.kv_heads()));
    const Tensor d_out = wide(part_of(d_output, group.batch, heads));
    const Tensor out = wide(part_of(output, group.batch, heads));
    const auto zeros = [](const Tensor& like) {
      return Tensor::zeros(like.device(), like.shape(), DType::kF32);
    };
    const AttentionGradients sums{zeros(q), zeros(k), zeros(v)};
    const AttentionOptions own = options_of(options, group.batch, q.size(1));
    differentiate(operands(q, k, v, own), q.device(), d_out.data<float>(), out.data<float>(),
                  log_sum_exp.span<float>().data() + group.first_row(q.size(1)),
                  sums.d_query.data<float>(), sums.d_key.data<float>(), sums.d_value.data<float>());
    cast_into(part_of(gradients.d_query, group.batch, heads), sums.d_query);
    cast_into(part_of(gradients.d_key, group.batch, group.kv_heads()), sums.d_key);
    cast_into(part_of(gradients.d_value, group.batch, group.kv_heads()), sums.d_value);
  });
}

}  // namespace ultra::ops::cpu::half
