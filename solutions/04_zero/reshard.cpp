#include "chapters/04_zero/checkpoints/reshard.hpp"

#include <algorithm>

namespace ultra::zero {

// [region copies_for]
std::vector<PieceCopy> copies_for(std::span<const Range> stored, Range wanted) {
  std::vector<PieceCopy> copies;
  for (std::size_t piece = 0; piece < stored.size(); ++piece) {
    const std::size_t begin = std::max(stored[piece].begin, wanted.begin);
    const std::size_t end = std::min(stored[piece].end, wanted.end);
    if (begin >= end) continue;
    copies.push_back({.piece = piece,
                      .from = begin - stored[piece].begin,
                      .to = begin - wanted.begin,
                      .count = end - begin});
  }
  std::sort(copies.begin(), copies.end(),
            [](const PieceCopy& a, const PieceCopy& b) { return a.to < b.to; });
  return copies;
}
// [/region]

}  // namespace ultra::zero
