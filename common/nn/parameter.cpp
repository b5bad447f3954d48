#include "common/nn/parameter.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/tensor/philox.hpp"

namespace ultra::nn {
namespace {

/// The extents of a shard; throws unless it is a part of the whole.
Shape shard_shape(const ParameterSpec& spec) {
  std::vector<std::size_t> dims;
  bool fits = spec.shard.size() == spec.global_shape.rank();
  for (const Range& range : spec.shard) {
    fits = fits && range.begin <= range.end &&
           range.end <= spec.global_shape[static_cast<int>(dims.size())];
    dims.push_back(range.size());
  }
  if (!fits) {
    throw ShapeError(fmt::format("the shard of parameter {} does not fit its global shape {}",
                                 spec.name, spec.global_shape.str()));
  }
  return Shape(dims);
}

}  // namespace

void DeferredGradients::run() {
  const std::vector<std::function<void()>> work = std::exchange(work_, {});
  for (const auto& piece : work) piece();
}

Parameter::Parameter(ParameterSpec spec, const Device& device, DType dtype, std::uint64_t seed)
    : spec_(std::move(spec)) {
  if (spec_.shard.empty()) {
    for (const std::size_t extent : spec_.global_shape.dims()) spec_.shard.push_back({0, extent});
  }
  value_ = Tensor::empty(device, shard_shape(spec_), dtype, MemoryCategory::kParameters);
  if (spec_.initializer.standard_deviation == 0.0) {
    value_.fill(spec_.initializer.constant);
  } else {
    fill_normal(value_, spec_.global_shape, spec_.shard, PhiloxStream(seed, spec_.name),
                spec_.initializer.standard_deviation);
  }
}

void Parameter::add_grad(GradientWork work) {
  if (queue_ != nullptr) {
    queue_->push([this, work = std::move(work)] { run(work); });
  } else {
    run(work);
  }
}

Tensor Parameter::fresh_grad() const {
  if (!allocate_grad_) {
    return Tensor::empty(value_.device(), value_.shape(), value_.dtype(),
                         MemoryCategory::kGradients);
  }
  const Tensor grad = allocate_grad_();
  expect_tensor("gradient of a parameter", grad, value_.shape(), value_.dtype());
  return grad;
}

void Parameter::run(const GradientWork& work) {
  const bool first = !grad_.defined();
  if (first) grad_ = fresh_grad();
  work(grad_, first ? ops::Write::kOverwrite : ops::Write::kAccumulate);
  for (const GradReadyHook& hook : hooks_) hook(*this);
}

}  // namespace ultra::nn
