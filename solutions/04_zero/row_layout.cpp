#include "chapters/04_zero/rows/row_layout.hpp"

#include <algorithm>

#include "common/base/numeric.hpp"

namespace ultra::zero {

// [region row_layout]
FlatLayout row_layout(std::span<const TensorRows> tensors, int ranks) {
  const auto size = checked_cast<std::size_t>(ranks);
  FlatLayout layout;
  for (const auto& [rows, width] : tensors) {
    layout.places.push_back({layout.padded, layout.padded + rows * width});
    layout.count += rows * width;
    layout.padded += size * ceil_div(rows, size) * width;
  }
  layout.shard = layout.padded / size;
  return layout;
}
// [/region]

// [region row_pieces]
std::vector<Piece> row_pieces(std::span<const TensorRows> tensors, int ranks, int rank) {
  std::vector<Piece> pieces;
  std::size_t place = 0;
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const auto& [rows, width] = tensors[tensor];
    const std::size_t own = ceil_div(rows, checked_cast<std::size_t>(ranks));
    const std::size_t begin = std::min(checked_cast<std::size_t>(rank) * own, rows) * width;
    const std::size_t end = std::min(begin + own * width, rows * width);
    if (begin < end) {
      pieces.push_back(
          {.tensor = tensor, .elements = {begin, end}, .place = {place, place + end - begin}});
    }
    place += own * width;
  }
  return pieces;
}
// [/region]

}  // namespace ultra::zero
