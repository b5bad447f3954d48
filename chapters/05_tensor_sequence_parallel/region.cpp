#include "chapters/05_tensor_sequence_parallel/region.hpp"

#include <utility>

#include "chapters/05_tensor_sequence_parallel/sequence_region.hpp"

namespace ultra::tensor_parallel {

// [region tensor_region]
Pending TensorRegion::enter(const Tensor& x) { return Pending(x); }

Pending TensorRegion::enter_backward(const Tensor& d_x) {
  return {d_x, tp_.labeled("input gradient").all_reduce(d_x)};
}

Pending TensorRegion::leave(const Tensor& y) { return {y, tp_.labeled("output").all_reduce(y)}; }

Pending TensorRegion::leave_backward(const Tensor& d_y) { return Pending(d_y); }
// [/region]

Pending WaitingRegion::enter(const Tensor& x) { return Pending(inner_->enter(x).wait()); }

Pending WaitingRegion::enter_backward(const Tensor& d_x) {
  return Pending(inner_->enter_backward(d_x).wait());
}

Pending WaitingRegion::leave(const Tensor& y) { return Pending(inner_->leave(y).wait()); }

Pending WaitingRegion::leave_backward(const Tensor& d_y) {
  return Pending(inner_->leave_backward(d_y).wait());
}

std::shared_ptr<Region> make_region(const Communicator& tp, SequenceParallel sequence_parallel) {
  if (sequence_parallel == SequenceParallel::kOn) return std::make_shared<SequenceRegion>(tp);
  return std::make_shared<TensorRegion>(tp);
}

}  // namespace ultra::tensor_parallel
