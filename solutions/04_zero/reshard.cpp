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

// [region copies_from_rows]
std::vector<PieceCopy> copies_from_rows(std::span<const PieceRows> stored, Range wanted) {
  std::vector<Range> elements;    // of each row
  std::vector<PieceCopy> places;  // of each row: its piece, and where it begins there
  for (std::size_t piece = 0; piece < stored.size(); ++piece) {
    const auto& [first, rows, stride] = stored[piece];
    std::size_t row = 0;
    if (stride > 0 && wanted.begin > first.end) row = (wanted.begin - first.end) / stride;
    for (; row < rows && first.begin + row * stride < wanted.end; ++row) {
      elements.push_back({first.begin + row * stride, first.end + row * stride});
      places.push_back({.piece = piece, .from = row * first.size()});
    }
  }
  std::vector<PieceCopy> copies = copies_for(elements, wanted);
  for (PieceCopy& copy : copies) {
    const PieceCopy& row = places[copy.piece];
    copy.piece = row.piece;
    copy.from += row.from;
  }
  return copies;
}
// [/region]

}  // namespace ultra::zero
