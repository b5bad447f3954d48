#include "common/train/weights/master_weights.hpp"

namespace ultra::train {
namespace {

/// Between devices nothing is converted.
void copy(const Tensor& to, const Tensor& from) {
  if (to.dtype() == from.dtype()) return to.copy_from(from);
  cast_into(to, from);
}

}  // namespace

MasterWeights::MasterWeights(std::span<const OwnedPiece> pieces, const nn::Precision& precision) {
  for (const OwnedPiece& piece : pieces) {
    const nn::Parameter& parameter = *piece.parameter;
    masters_.emplace_back();
    if (!is_half(parameter.dtype()) || is_half(precision.optimizer)) continue;
    masters_.back() = Tensor::empty(parameter.device(), {piece.elements.size()},
                                    precision.optimizer, MemoryCategory::kOptimizer);
    parameter.initial_values_into(masters_.back(), piece.elements.begin);
  }
}

void MasterWeights::read(std::size_t piece, const Tensor& weights, const Tensor& out) const {
  copy(out, of(piece).defined() ? of(piece) : weights);
}

void MasterWeights::write(std::size_t piece, const Tensor& weights, const Tensor& in) const {
  if (of(piece).defined()) copy(of(piece), in);
  copy(weights, in);
}

}  // namespace ultra::train
