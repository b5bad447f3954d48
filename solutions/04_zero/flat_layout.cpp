#include "chapters/04_zero/flat_layout.hpp"

#include <algorithm>

#include "common/base/numeric.hpp"

namespace ultra::zero {

// [region flat_layout]
FlatLayout flat_layout(std::span<const std::size_t> counts, int ranks) {
  FlatLayout layout;
  for (const std::size_t count : counts) {
    layout.places.push_back({layout.count, layout.count + count});
    layout.count += count;
  }
  const auto size = checked_cast<std::size_t>(ranks);
  layout.shard = (layout.count + size - 1) / size;
  layout.padded = layout.shard * size;
  return layout;
}
// [/region]

// [region shard_range]
Range shard_range(const FlatLayout& layout, int rank) {
  const std::size_t begin = checked_cast<std::size_t>(rank) * layout.shard;
  return {begin, begin + layout.shard};
}
// [/region]

// [region pieces_of]
std::vector<Piece> pieces_of(const FlatLayout& layout, int rank) {
  const Range shard = shard_range(layout, rank);
  std::vector<Piece> pieces;
  for (std::size_t tensor = 0; tensor < layout.places.size(); ++tensor) {
    const Range& whole = layout.places[tensor];
    const std::size_t begin = std::max(whole.begin, shard.begin);
    const std::size_t end = std::min(whole.end, shard.end);
    if (begin >= end) continue;  // nothing of it lies here
    pieces.push_back({.tensor = tensor,
                      .elements = {begin - whole.begin, end - whole.begin},
                      .place = {begin - shard.begin, end - shard.begin}});
  }
  return pieces;
}
// [/region]

}  // namespace ultra::zero
