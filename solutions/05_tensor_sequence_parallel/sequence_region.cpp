#include "chapters/05_tensor_sequence_parallel/sequence_region.hpp"

namespace ultra::tensor_parallel {
namespace {

// [region gather]
/// All tokens, of which each rank has a part.
Pending gather(const Tensor& x, const Communicator& tp) {
  const auto ranks = static_cast<std::size_t>(tp.size());
  const Tensor parts =
      Tensor::empty(x.device(), {ranks, x.size(0), x.size(1), x.size(2)}, x.dtype());
  return {parts, tp.all_gather(x, parts), join_sequences};
}
// [/region]

// [region scatter]
/// The sum of all ranks' tensors, of this rank's tokens.
Pending scatter_sum(const Tensor& y, const Communicator& tp) {
  const auto ranks = static_cast<std::size_t>(tp.size());
  const Tensor parts = cut_sequences(y, ranks);
  const Tensor own =
      Tensor::empty(y.device(), {y.size(0), y.size(1) / ranks, y.size(2)}, y.dtype());
  return {own, tp.reduce_scatter(parts, own)};
}
// [/region]

}  // namespace

Pending SequenceRegion::enter(const Tensor& x) { return gather(x, tp_.labeled("input")); }

Pending SequenceRegion::enter_backward(const Tensor& d_x) {
  return scatter_sum(d_x, tp_.labeled("input gradient"));
}

Pending SequenceRegion::leave(const Tensor& y) { return scatter_sum(y, tp_.labeled("output")); }

Pending SequenceRegion::leave_backward(const Tensor& d_y) {
  return gather(d_y, tp_.labeled("output gradient"));
}

}  // namespace ultra::tensor_parallel
