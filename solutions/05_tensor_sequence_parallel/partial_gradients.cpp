#include "chapters/05_tensor_sequence_parallel/partial_gradients.hpp"

#include <cmath>
#include <vector>

#include "common/ops/elementwise.hpp"

namespace ultra::tensor_parallel {
namespace {

/// The gradients that a group of ranks has to add up.
std::vector<Tensor> partial_gradients_of(std::span<const train::GradientPiece> pieces,
                                         const Communicator& group) {
  std::vector<Tensor> found;
  for (const train::GradientPiece& piece : pieces) {
    const nn::Copies& copies = piece.parameter->copies();
    if (copies.gradients != nn::CopyGradients::kPartial || copies.count != group.size()) continue;
    found.push_back(piece.grad.view({piece.grad.numel()}));
  }
  return found;
}

}  // namespace

// [region sum_partial_gradients]
void sum_partial_gradients(std::span<const train::GradientPiece> pieces,
                           std::span<const Communicator> groups) {
  for (const Communicator& group : groups) {
    const std::vector<Tensor> gradients = partial_gradients_of(pieces, group);
    if (gradients.empty()) continue;
    std::size_t count = 0;
    for (const Tensor& gradient : gradients) count += gradient.numel();
    const Tensor flat = Tensor::empty(gradients[0].device(), {count}, gradients[0].dtype(),
                                      MemoryCategory::kCommunication);
    const auto place = [&, end = std::size_t{0}](const Tensor& gradient) mutable {
      end += gradient.numel();
      return flat.slice(0, {end - gradient.numel(), end});
    };
    auto to = place;
    for (const Tensor& gradient : gradients) to(gradient).copy_from(gradient);
    group.labeled("gradients of copies").all_reduce(flat);
    auto from = place;
    for (const Tensor& gradient : gradients) gradient.copy_from(from(gradient));
  }
}
// [/region]

// [region norm_over_ranks]
double norm_over_ranks(std::span<const train::GradientPiece> pieces, const Communicator& ranks) {
  double squares = 0;
  for (const train::GradientPiece& piece : pieces) {
    if (piece.parameter->copies().index == 0) squares += ops::sum_of_squares(piece.grad);
  }
  const Tensor sum = Tensor::zeros(Device::cpu(), {1}, DType::kF64, MemoryCategory::kCommunication);
  sum.fill(squares);
  ranks.labeled("gradient norm").all_reduce(sum);
  return std::sqrt(sum.span<double>()[0]);
}
// [/region]

}  // namespace ultra::tensor_parallel
