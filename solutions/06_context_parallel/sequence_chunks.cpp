#include "chapters/06_context_parallel/sequence_chunks.hpp"

#include <cstdint>
#include <functional>
#include <utility>

#include "common/base/errors.hpp"

namespace ultra::context_parallel {

// [region chunks]
TokenChunks chunks_of(const ContextLayout& layout, int rank) {
  const std::size_t c = layout.chunk_len();
  const auto chunk = [c](std::size_t i) { return Range{i * c, (i + 1) * c}; };
  const auto r = static_cast<std::size_t>(rank);
  if (layout.sequence == SequenceLayout::kContiguous) return {chunk(r)};
  return {chunk(r), chunk(2 * layout.ranks() - 1 - r)};
}
// [/region]

// [region tokens]
void deal_out(train::Plan& plan, const ContextLayout& layout, int rank) {
  std::vector<std::int32_t>& positions = plan.tokens.positions;
  positions.clear();
  for (const Range& chunk : chunks_of(layout, rank)) {
    for (std::size_t position = chunk.begin; position < chunk.end; ++position) {
      positions.push_back(static_cast<std::int32_t>(position));
    }
  }
  plan.tokens.padded_len = layout.padded_len();
}
// [/region]

namespace {

/// Calls `fn` for each chunk of each rank: whose it is, its rows in the rank's part, and its rows in
/// the whole, where the chunks of all ranks stand in the order of their positions.
void for_each_chunk(std::span<const TokenChunks> chunks,
                    const std::function<void(std::size_t, Range, Range)>& fn) {
  for (std::size_t rank = 0; rank < chunks.size(); ++rank) {
    std::size_t row = 0;
    for (const Range& chunk : chunks[rank]) {
      std::size_t before = 0;  // tokens of all ranks in front of the chunk
      for (const TokenChunks& others : chunks) {
        for (const Range& other : others) {
          if (other.begin < chunk.begin) before += other.size();
        }
      }
      fn(rank, {row, row + chunk.size()}, {before, before + chunk.size()});
      row += chunk.size();
    }
  }
}

}  // namespace

// [region split]
std::vector<Tensor> split_sequence(const Tensor& whole, std::span<const TokenChunks> chunks) {
  std::vector<Tensor> parts;
  for (const TokenChunks& own : chunks) {
    const Shape shape = whole.shape().with(1, token_count(own));
    parts.push_back(Tensor::empty(whole.device(), shape, whole.dtype()));
  }
  for_each_chunk(chunks, [&](std::size_t rank, Range rows, Range rows_of_whole) {
    parts[rank].slice(1, rows).copy_from(whole.slice(1, rows_of_whole));
  });
  return parts;
}

Tensor join_sequence(std::span<const Tensor> parts, std::span<const TokenChunks> chunks) {
  std::size_t tokens = 0;
  for (const Tensor& part : parts) tokens += part.size(1);
  Tensor whole =
      Tensor::empty(parts[0].device(), parts[0].shape().with(1, tokens), parts[0].dtype());
  for_each_chunk(chunks, [&](std::size_t rank, Range rows, Range rows_of_whole) {
    whole.slice(1, rows_of_whole).copy_from(parts[rank].slice(1, rows));
  });
  return whole;
}
// [/region]

}  // namespace ultra::context_parallel
