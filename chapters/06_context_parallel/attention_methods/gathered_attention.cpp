#include <vector>

#include "chapters/06_context_parallel/attention_methods/sequence_attention.hpp"
#include "chapters/06_context_parallel/kv_block.hpp"
#include "chapters/06_context_parallel/sequence_chunks.hpp"
#include "common/ops/sums/exact_sum.hpp"

namespace ultra::context_parallel {
namespace {

/// The pairs of all ranks, one after the other: [N, 2, batch, seq, kv_heads, head_dim], or [N, 1, ..]
/// where values are keys.
Tensor pairs_of(const SequenceGroup& group, const KeyValues& own, DType dtype) {
  const Shape& shape = own.key.shape();
  const std::size_t arrays = own.key.shares_storage(own.value) ? 1 : 2;
  return Tensor::empty(own.key.device(),
                       {group.chunks.size(), arrays, shape[0], shape[1], shape[2], shape[3]}, dtype,
                       MemoryCategory::kCommunication);
}

/// In which gradients of keys travel: rounded once before, or, where sums follow trees, once behind.
DType type_of_gradients(const Tensor& key) {
  return ops::sums_by_trees(key.device()) ? accumulation_dtype(key.dtype()) : key.dtype();
}

/// Keys (0) or values (1) of one rank: a view.
Tensor part(const Tensor& pairs, std::size_t rank, std::size_t which) {
  const Shape& shape = pairs.shape();
  return pairs.slice(0, {rank, rank + 1})
      .slice(1, {which, which + 1})
      .view({shape[2], shape[3], shape[4], shape[5]});
}

Tensor joined(const Tensor& pairs, std::size_t which, const SequenceGroup& group) {
  std::vector<Tensor> parts;
  for (std::size_t rank = 0; rank < group.chunks.size(); ++rank) {
    parts.push_back(part(pairs, rank, which));
  }
  return join_sequence(parts, group.chunks);
}

void put(const Tensor& pairs, std::size_t which, const Tensor& whole, const SequenceGroup& group) {
  const std::vector<Tensor> parts = split_sequence(whole, group.chunks);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    cast_into(part(pairs, rank, which), parts[rank]);
  }
}

/// Where gradients are summed up.
Tensor no_gradient(const Tensor& x) {
  return Tensor::zeros(x.device(), x.shape(), accumulation_dtype(x.dtype()));
}

}  // namespace

// [region gathered]
KeyValues GatheredAttention::gather(const Tensor& key, const Tensor& value) const {
  const KeyValues own{.key = key, .value = value, .chunks = group_.own()};
  const KvBlock pair = KvBlock::copy_of(own);
  const Tensor pairs = pairs_of(group_, own, key.dtype());
  group_.ranks.labeled("keys and values").all_gather(pair.both(), pairs).wait();
  const Tensor all = joined(pairs, 0, group_);
  return {.key = all,
          .value = pair.arrays() == 1 ? all : joined(pairs, 1, group_),
          .chunks = group_.all()};
}

Tensor GatheredAttention::forward(const nn::Qkv& in, const AttentionScope& scope,
                                  nn::Saved& saved) {
  const BlockAttention queries(in.query, group_.own(), scope);
  const PartialAttention sums = queries.empty_partial();
  queries.attend(sums, gather(in.key, in.value));
  const PartialAttention partial = rounded(sums, in.query.dtype());
  save_attention(in, partial, saved);
  return partial.output;
}

nn::QkvGradients GatheredAttention::backward(const Tensor& d_output, const AttentionScope& scope,
                                             nn::Saved& saved) {
  const auto [in, partial] = take_attention(saved);
  const BlockAttention queries(in.query, group_.own(), scope);
  const KeyValues own{.key = in.key, .value = in.value, .chunks = group_.own()};
  const Tensor d_query = no_gradient(in.query);
  const Tensor d_pairs = pairs_of(group_, own, type_of_gradients(in.key));
  {
    const KeyValues all = gather(in.key, in.value);
    const Tensor d_key = no_gradient(all.key);
    const bool two = d_pairs.size(1) == 2;
    const nn::QkvGradients d_all{d_query, d_key, two ? no_gradient(all.value) : d_key};
    queries.add_gradients(d_output, partial, all, d_all);
    put(d_pairs, 0, d_all.d_key, group_);
    if (two) put(d_pairs, 1, d_all.d_value, group_);
  }
  const KvBlock d_own = KvBlock::like(own, d_pairs.dtype());
  group_.ranks.labeled("gradients of keys and values").reduce_scatter(d_pairs, d_own.both()).wait();
  return {d_query, d_own.first(), d_own.second()};
}
// [/region]

}  // namespace ultra::context_parallel
