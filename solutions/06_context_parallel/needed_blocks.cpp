#include "chapters/06_context_parallel/needed_blocks.hpp"

#include <algorithm>

namespace ultra::context_parallel {
// [region blocks]
std::vector<AttentionBlock> needed_blocks(const TokenChunks& queries, const TokenChunks& keys,
                                          const SequenceMask& mask) {
  std::vector<AttentionBlock> blocks;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const Range real = mask.real(queries[i]);
    for (std::size_t j = 0; j < keys.size(); ++j) {
      // Of the queries that are not before all keys, the first has the earliest document.
      const std::size_t first = std::max(real.begin, keys[j].begin);
      if (first >= real.end || mask.begin_of(first) >= keys[j].end) continue;
      const bool all_before = keys[j].end <= real.begin + 1;
      const bool all_inside = mask.begin_of(real.end - 1) <= keys[j].begin;
      blocks.push_back(
          {.query_chunk = i, .key_chunk = j, .is_masked = !(all_before && all_inside)});
    }
  }
  return blocks;
}
// [/region]

}  // namespace ultra::context_parallel
