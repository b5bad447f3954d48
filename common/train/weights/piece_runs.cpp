#include "common/train/weights/piece_runs.hpp"

#include <algorithm>

namespace ultra::train {

std::vector<checkpoint::ElementRun> runs_of(const OwnedPiece& piece) {
  const nn::Parameter& parameter = *piece.parameter;
  const std::size_t end = parameter.own_count();  // padding is in no file
  return checkpoint::element_runs(
      parameter.global_shape(), parameter.shard(),
      {std::min(piece.elements.begin, end), std::min(piece.elements.end, end)});
}

}  // namespace ultra::train
