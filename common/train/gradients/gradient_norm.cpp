#include "common/train/gradients/gradient_norm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/errors.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/sums/exact_sum.hpp"

namespace ultra::train {

StepSums::StepSums(const Device& device, std::size_t squares, std::size_t losses)
    : squares_(squares), on_host_(squares + losses, 0.0) {
  const std::size_t digits = ops::digits_of_sums(device);
  if (has_streams(device.kind()) || digits > 1) {
    on_device_ = Tensor::zeros(device, {on_host_.size(), digits}, DType::kF64);
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

void StepSums::add(std::size_t parameter, const StepSums& others, std::size_t other) {
  if (on_device_.defined()) {
    ops::add_into(on_device(parameter), others.on_device(other));
  } else {
    on_host_[parameter] += others.on_host_[other];
  }
}

Tensor StepSums::loss_on_device(std::size_t loss) const {
  return on_device_.defined() ? on_device(squares_ + loss) : Tensor();
}

std::vector<double> StepSums::read() const {
  return on_device_.defined() ? on_device_.to_vector() : on_host_;
}

Tensor StepSums::on_device(std::size_t index) const {
  return on_device_.slice(0, {index, index + 1}).view({on_device_.size(1)});
}

void sum_over(const Communicator& ranks, std::span<double> numbers) {
  if (ranks.size() == 1) return;
  const Tensor sums =
      Tensor::zeros(Device::cpu(), {numbers.size()}, DType::kF64, MemoryCategory::kCommunication);
  std::ranges::copy(numbers, sums.span<double>().begin());
  ranks.all_reduce(sums).wait();
  std::ranges::copy(sums.span<double>(), numbers.begin());
}

ParameterNumbers::ParameterNumbers(std::span<const nn::NamedShape> whole) {
  for (const nn::NamedShape& parameter : whole) numbers_.emplace(parameter.name, numbers_.size());
}

std::size_t ParameterNumbers::of(const nn::Parameter& parameter) const {
  const auto found = numbers_.find(parameter.name());
  if (found != numbers_.end()) return found->second;
  throw InternalError(fmt::format("the whole model has no parameter {}", parameter.name()));
}

// [region add_owned_squares]
void add_owned_squares(const ModelStates& states, std::span<const optim::TensorUpdate> updates,
                       const ParameterNumbers& numbers, StepSums& sums) {
  for (std::size_t i = 0; i < updates.size(); ++i) {
    if (!states.owns(i)) continue;
    sums.add_squares(numbers.of(*states.pieces()[i].parameter), updates[i].grad);
  }
}
// [/region]

double norm_of(std::span<const double> squares) {
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

}  // namespace ultra::train
