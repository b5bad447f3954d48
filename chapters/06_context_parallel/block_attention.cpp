#include "chapters/06_context_parallel/block_attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "chapters/06_context_parallel/merge_attention.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/partial_softmax.hpp"

namespace ultra::context_parallel {
namespace {

/// Rows of each chunk in a tensor that has the chunks one after the other.
std::vector<Range> rows_of(const TokenChunks& chunks) {
  std::vector<Range> rows;
  std::size_t begin = 0;
  for (const Range& chunk : chunks) {
    rows.push_back({begin, begin + chunk.size()});
    begin += chunk.size();
  }
  return rows;
}

std::vector<std::int32_t> positions_of(Range chunk) {
  std::vector<std::int32_t> positions(chunk.size());
  std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(chunk.begin));
  return positions;
}

/// [1, rows, heads, head_dim] of one sequence: a view.
Tensor rows(const Tensor& x, std::size_t sequence, Range range) {
  return x.slice(0, {sequence, sequence + 1}).slice(1, range);
}

/// [1, heads, rows] of one chunk: a view.
Tensor rows_of_logs(const Tensor& log_sum_exp, std::size_t sequence, Range range,
                    std::size_t heads) {
  return log_sum_exp.slice(0, {sequence, sequence + 1})
      .slice(1, {range.begin * heads, range.end * heads})
      .view({1, heads, range.size()});
}

ops::AttentionResult rows_of(const PartialAttention& partial, std::size_t sequence, Range range) {
  return {rows(partial.output, sequence, range),
          rows_of_logs(partial.log_sum_exp, sequence, range, partial.output.size(2))};
}

/// merge_attention() reads the numbers on the host; on a device with streams a kernel does.
void add_part(const ops::AttentionResult& into, const ops::AttentionResult& part) {
  if (has_streams(into.output.device().kind())) return ops::merge_attention_on_device(into, part);
  merge_attention(into, part);
}

/// A range so many tokens earlier; what would lie before the sequence is left out.
Range earlier(Range range, std::size_t tokens) {
  return {range.begin - std::min(range.begin, tokens), range.end - std::min(range.end, tokens)};
}

/// Pairs of a query and a key at or before it.
std::size_t causal_pairs(Range queries, Range keys) {
  // Of all queries before `end` with keys from `key` on: a triangle.
  const auto from = [](std::size_t key, std::size_t end) {
    const std::size_t side = end - std::min(key, end);
    return side * (side + 1) / 2;
  };
  return from(keys.begin, queries.end) - from(keys.begin, queries.begin) -
         (from(keys.end, queries.end) - from(keys.end, queries.begin));
}

}  // namespace

std::size_t seen_pairs(Range queries, Range keys, const SequenceMask& mask) {
  const Range real = mask.real(queries);
  if (mask.document_begins.empty()) {
    // Hidden by a window is what queries a window earlier saw.
    const std::size_t hides = mask.window == 0 ? real.end : mask.window;
    return causal_pairs(real, keys) - causal_pairs(earlier(real, hides), keys);
  }
  std::size_t pairs = 0;
  for (std::size_t query = real.begin; query < real.end; ++query) {
    const std::size_t begin = std::max(keys.begin, mask.begin_of(query));
    const std::size_t end = std::min(keys.end, query + 1);
    if (begin < end) pairs += end - begin;
  }
  return pairs;
}

// [region steps]
std::vector<int> ring_steps(std::span<const TokenChunks> chunks, std::size_t window) {
  std::vector<int> steps(chunks.size());
  std::iota(steps.begin(), steps.end(), 0);
  if (window == 0) return steps;  // the last rank sees something in each
  const SequenceMask mask{.seq_len = token_count(joined_chunks(chunks)), .window = window};
  std::erase_if(steps, [&](int step) {
    for (std::size_t rank = 0; rank < chunks.size(); ++rank) {
      const std::size_t owner =
          (rank + chunks.size() - static_cast<std::size_t>(step)) % chunks.size();
      if (!needed_blocks(chunks[rank], chunks[owner], mask).empty()) return false;
    }
    return true;
  });
  return steps;
}
// [/region]

SequenceMask AttentionScope::mask(std::size_t sequence) const {
  SequenceMask mask{.seq_len = seq_len, .window = window};
  if (places) mask.document_begins = places->begins(sequence, {0, places->sequence_len});
  return mask;
}

/// A block of one sequence, as views, and how it is masked.
struct BlockAttention::Block {
  std::size_t sequence;
  Range query_rows;
  Range key_rows;
  Tensor query;
  Tensor key;
  Tensor value;
  ops::AttentionOptions options;
  double pairs;  // times heads
};

BlockAttention::BlockAttention(Tensor query, TokenChunks chunks, AttentionScope scope)
    : query_(std::move(query)), chunks_(std::move(chunks)), scope_(std::move(scope)) {}

PartialAttention BlockAttention::empty_partial() const {
  const DType sums = accumulation_dtype(query_.dtype());
  PartialAttention partial{
      .output = Tensor::zeros(query_.device(), query_.shape(), sums),
      .log_sum_exp =
          Tensor::empty(query_.device(), {query_.size(0), query_.size(1) * query_.size(2)}, sums)};
  partial.log_sum_exp.fill(-std::numeric_limits<double>::infinity());
  return partial;
}

void BlockAttention::for_each_block(const KeyValues& keys,
                                    const std::function<void(const Block&)>& fn) const {
  const std::vector<Range> query_rows = rows_of(chunks_);
  const std::vector<Range> key_rows = rows_of(keys.chunks);
  for (std::size_t sequence = 0; sequence < query_.size(0); ++sequence) {
    const SequenceMask mask = scope_.mask(sequence);
    for (const AttentionBlock& block : needed_blocks(chunks_, keys.chunks, mask)) {
      const Range queries = chunks_[block.query_chunk];
      const Range seen = keys.chunks[block.key_chunk];
      const auto query_positions = positions_of(queries);
      const auto key_positions = positions_of(seen);
      ops::AttentionOptions options{.mask = block.is_masked ? ops::Mask::kCausal : ops::Mask::kNone,
                                    .scale = 1.0 / std::sqrt(static_cast<double>(query_.size(3))),
                                    .query_positions = query_positions,
                                    .key_positions = key_positions,
                                    .window = block.is_masked ? scope_.window : 0,
                                    .sums = ops::AttentionSums::kWide};
      if (block.is_masked && scope_.places) {
        options.first_seen = scope_.places->begins(sequence, queries);
      }
      const Range at = query_rows[block.query_chunk];
      const Range keys_at = key_rows[block.key_chunk];
      fn({.sequence = sequence,
          .query_rows = at,
          .key_rows = keys_at,
          .query = rows(query_, sequence, at),
          .key = rows(keys.key, sequence, keys_at),
          .value = rows(keys.value, sequence, keys_at),
          .options = options,
          .pairs = static_cast<double>(seen_pairs(queries, seen, mask) * query_.size(2))});
    }
  }
}

/// Matrix products of head_dim multiplications and additions: 2 forward, 5 backward.
void BlockAttention::count(const Block& block, double flops_per_pair) const {
  if (scope_.counters == nullptr) return;
  const auto head_dim = static_cast<double>(query_.size(3));
  scope_.counters->add(kAttentionFlops, block.pairs * flops_per_pair * head_dim);
  scope_.counters->add(kAttentionBlocks, 1);
}

// [region attend]
void BlockAttention::attend(const PartialAttention& partial, const KeyValues& keys) const {
  for_each_block(keys, [&](const Block& block) {
    add_part(rows_of(partial, block.sequence, block.query_rows),
             ops::attention(block.query, block.key, block.value, block.options));
    count(block, 4);
  });
}
// [/region]

void BlockAttention::add_gradients(const Tensor& d_output, const PartialAttention& whole,
                                   const KeyValues& keys, const nn::QkvGradients& into) const {
  for_each_block(keys, [&](const Block& block) {
    const auto [output, log_sum_exp] = rows_of(whole, block.sequence, block.query_rows);
    const auto [d_query, d_key, d_value] =
        ops::attention_backward(rows(d_output, block.sequence, block.query_rows), block.query,
                                block.key, block.value, output, log_sum_exp, block.options);
    ops::add_into(rows(into.d_query, block.sequence, block.query_rows), d_query);
    ops::add_into(rows(into.d_key, block.sequence, block.key_rows), d_key);
    ops::add_into(rows(into.d_value, block.sequence, block.key_rows), d_value);
    count(block, 10);
  });
}

}  // namespace ultra::context_parallel
