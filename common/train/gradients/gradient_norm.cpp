#include "common/train/gradients/gradient_norm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/errors.hpp"

namespace ultra::train {

void sum_over(const Communicator& ranks, std::span<double> numbers) {
  if (ranks.size() == 1) return;
  const Tensor sums =
      Tensor::zeros(Device::cpu(), {numbers.size()}, DType::kF64, MemoryCategory::kCommunication);
  std::ranges::copy(numbers, sums.span<double>().begin());
  ranks.all_reduce(sums);
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
