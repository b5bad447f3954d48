#include "chapters/06_context_parallel/context_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::context_parallel {

std::size_t ContextLayout::chunk_len() const {
  const std::size_t chunks = ranks() * chunks_per_rank();
  // chunks_per_rank() chunks are a multiple of `multiple_of` when a chunk is a multiple of this.
  const std::size_t step = multiple_of / std::gcd(multiple_of, chunks_per_rank());
  return ceil_div(ceil_div(seq_len, chunks), step) * step;
}

void ContextLayout::validate() const {
  if (cp < 1) throw ConfigError(fmt::format("--cp is {}. It must be at least 1.", cp));
  const std::size_t chunks = ranks() * chunks_per_rank();
  if (cp == 1 || seq_len >= chunks) return;
  throw ConfigError(fmt::format(
      "--seq {} is less than the {} chunks into which --cp {} cuts it (--cp-layout {}). Choose "
      "--seq of at least {}, or a smaller --cp.",
      seq_len, chunks, cp, to_string(sequence), chunks));
}

const char* to_string(SequenceLayout layout) {
  return layout == SequenceLayout::kZigzag ? "zigzag" : "contiguous";
}

TokenChunks joined_chunks(std::span<const TokenChunks> chunks) {
  TokenChunks all;
  for (const TokenChunks& own : chunks) all.insert(all.end(), own.begin(), own.end());
  std::ranges::sort(all, {}, &Range::begin);
  TokenChunks merged;
  for (const Range& chunk : all) {
    if (!merged.empty() && merged.back().end == chunk.begin) {
      merged.back().end = chunk.end;
    } else {
      merged.push_back(chunk);
    }
  }
  return merged;
}

std::size_t token_count(const TokenChunks& chunks) {
  return std::accumulate(chunks.begin(), chunks.end(), std::size_t{0},
                         [](std::size_t sum, const Range& chunk) { return sum + chunk.size(); });
}

}  // namespace ultra::context_parallel
