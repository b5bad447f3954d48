#include "common/train/gradients/step_sums.hpp"

#include <algorithm>

#include "common/ops/elementwise.hpp"

namespace ultra::train {

StepSums::StepSums(const Device& device, std::size_t squares) : on_host_(squares + 1, 0.0) {
  if (has_streams(device.kind())) {
    on_device_ = Tensor::zeros(device, {on_host_.size()}, DType::kF64);
  }
}

void StepSums::begin() {
  std::ranges::fill(on_host_, 0.0);
  if (on_device_.defined()) on_device_.fill(0.0);
}

void StepSums::add_squares(std::size_t parameter, const Tensor& gradient) {
  if (on_device_.defined()) {
    ops::sum_of_squares_into(on_device(parameter), gradient, ops::Write::kAccumulate);
  } else {
    on_host_[parameter] += ops::sum_of_squares(gradient);
  }
}

Tensor StepSums::loss_on_device() const {
  return on_device_.defined() ? on_device(on_host_.size() - 1) : Tensor();
}

std::vector<double> StepSums::read() const {
  return on_device_.defined() ? on_device_.to_vector() : on_host_;
}

Tensor StepSums::on_device(std::size_t index) const {
  return on_device_.slice(0, {index, index + 1});
}

}  // namespace ultra::train
