#include "chapters/05_tensor_sequence_parallel/partial_gradients.hpp"

#include <string>
#include <vector>

namespace ultra::tensor_parallel {
namespace {

/// The gradients that a group of ranks has to add up.
std::vector<Tensor> partial_gradients_of(std::span<const train::GradientPiece> pieces,
                                         const std::string& group) {
  std::vector<Tensor> found;
  for (const train::GradientPiece& piece : pieces) {
    for (const nn::Replication& replication : piece.parameter->replications()) {
      if (replication.group != group) continue;
      if (replication.gradients != nn::CopyGradients::kPartial) continue;
      found.push_back(piece.grad.view({piece.grad.numel()}));
    }
  }
  return found;
}

}  // namespace

// [region sum_partial_gradients]
void sum_partial_gradients(std::span<const train::GradientPiece> pieces,
                           const train::RankGroups& groups) {
  for (const auto& [name, ranks] : groups.all()) {
    const std::vector<Tensor> gradients = partial_gradients_of(pieces, name);
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
    ranks.labeled("gradients of copies").all_reduce(flat).wait();
    auto from = place;
    for (const Tensor& gradient : gradients) gradient.copy_from(from(gradient));
  }
}
// [/region]

}  // namespace ultra::tensor_parallel
