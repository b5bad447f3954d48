#include "common/nn/parameter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/ops/fp8/fp8_products.hpp"
#include "common/tensor/philox.hpp"

namespace ultra::nn {
namespace {

/// A shard that is not given is the whole weight.
ParameterSpec with_shard(ParameterSpec spec) {
  if (!spec.shard.empty()) return spec;
  for (const std::size_t extent : spec.global_shape.dims()) spec.shard.push_back({0, extent});
  return spec;
}

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
  if (spec.padding > 0) dims.at(0) += spec.padding;
  return Shape(dims);
}

}  // namespace

void DeferredGradients::pass_ends() const {
  for (const Tensor& tensor : kept_) {  // buffers of messages, too: they have arrived
    const MemoryCategory now = tensor.category();
    if (now == MemoryCategory::kOther || now == MemoryCategory::kCommunication) {
      tensor.set_category(MemoryCategory::kActivations);
    }
  }
}

void DeferredGradients::run() {
  const std::vector<std::function<void()>> work = std::exchange(work_, {});
  const std::vector<Tensor> kept = std::exchange(kept_, {});
  for (const auto& piece : work) piece();
}

Parameter::Parameter(ParameterSpec spec, const Device& device, ParameterTypes types,
                     std::uint64_t seed, Values values)
    : spec_(with_shard(std::move(spec))),
      shape_(shard_shape(spec_)),
      device_(device),
      types_(types),
      seed_(seed) {
  if (values != Values::kAllocated) return;
  value_ = Tensor::empty(device, shape_, dtype(), MemoryCategory::kParameters);
  initial_values_into(value_);
}

void Parameter::initial_values_into(const Tensor& out, std::size_t first) const {
  if (first > count() || out.numel() > count() - first) {
    throw ShapeError(fmt::format("elements [{}, {}) do not fit parameter {}, which has {}", first,
                                 first + out.numel(), name(), count()));
  }
  const std::size_t own_end = std::clamp(own_count(), first, first + out.numel()) - first;
  const Tensor flat = out.view({out.numel()});
  flat.slice(0, {own_end, out.numel()}).fill(0.0);
  if (own_end == 0) return;
  const Tensor own = flat.slice(0, {0, own_end});
  if (spec_.initializer.standard_deviation == 0.0) {
    own.fill(spec_.initializer.constant);
  } else {
    fill_normal_elements(own, first, spec_.global_shape, spec_.shard,
                         PhiloxStream(seed_, spec_.name), spec_.initializer.standard_deviation);
  }
}

std::size_t Parameter::own_count() const {
  std::size_t count = 1;
  for (const Range& range : spec_.shard) count *= range.size();
  return count;
}

void Parameter::replicate(const Replication& replication) {
  if (replication.size == 1) return;
  for (const Replication& known : replications_) {
    if (known.group == replication.group) {
      throw InternalError(
          fmt::format("parameter {} is replicated over '{}' twice", name(), replication.group));
    }
  }
  replications_.push_back(replication);
}

bool Parameter::is_owner() const {
  return std::all_of(replications_.begin(), replications_.end(),
                     [](const Replication& replication) { return replication.index == 0; });
}

const Tensor& Parameter::value() const {
  if (!value_.defined()) {
    throw InternalError(fmt::format(
        "the values of {} are not on this rank: they were released, or were never gathered. "
        "Gather a sharded weight before the pass that reads it.",
        name()));
  }
  return value_;
}

void Parameter::set_value(const Tensor& value) {
  expect_tensor(name().c_str(), value, shape_, dtype());
  value_ = value;
}

HookHandle Parameter::allocate_grad_by(std::function<Tensor()> allocate) {
  auto added = std::make_shared<const std::function<Tensor()>>(std::move(allocate));
  allocate_grad_ = added;
  return added;
}

HookHandle Parameter::on_grad_ready(GradReadyHook hook) {
  auto added = std::make_shared<const GradReadyHook>(std::move(hook));
  hooks_.push_back(added);
  return added;
}

void Parameter::add_grad(GradientWork work) {
  if (is_frozen_) return;
  if (queue_ != nullptr) {
    queue_->push([this, work = std::move(work)] { run(work); });
  } else {
    run(work);
  }
}

Tensor Parameter::fresh_grad() const {
  const auto allocate = allocate_grad_.lock();
  if (!allocate) return Tensor::empty(device_, shape_, grad_dtype(), MemoryCategory::kGradients);
  const Tensor grad = (*allocate)();
  expect_tensor("gradient of a parameter", grad, shape_, grad_dtype());
  return grad;
}

void Parameter::run(const GradientWork& work) {
  const bool first = !grad_.defined();
  if (first) grad_ = fresh_grad();
  work(grad_, first ? ops::Write::kOverwrite : ops::Write::kAccumulate);
  for (const auto& hook : hooks_) {
    if (const auto there = hook.lock()) (*there)(*this);
  }
}

void add_matmul_grad(Parameter& weight, const Tensor& d_y, const Tensor& x) {
  for (const Tensor& each : {d_y, x}) weight.keep_for_grad(each);
  // What is known of products with the weight holds for this one, whenever it is computed.
  const std::optional<ops::Fp8Factors> fp8 = ops::Fp8Products::with(weight.value());
  weight.add_grad([d_y, x, fp8](const Tensor& grad, ops::Write write) {
    const Tensor rows = ops::as_matrix(x);
    std::optional<ops::Fp8Products> products;
    if (fp8) products.emplace(std::vector{rows}, *fp8);
    ops::matmul_into(grad, ops::as_matrix(d_y), ops::Transpose::kYes, rows, ops::Transpose::kNo,
                     write);
  });
}

}  // namespace ultra::nn
