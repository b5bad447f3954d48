#include "common/ops/weighted_rows.hpp"

#include "common/ops/backend/gpu/operands.hpp"

namespace ultra::ops {
namespace {

namespace generic = kernels::generic;
using gpu::launch;
using gpu::source;
using gpu::target;

Tensor on_device_of(const Tensor& x, const Tensor& weights) {
  return weights.defined() ? weights.to(x.device()) : Tensor();
}

generic::Source weights_of(const Tensor& weights) {
  if (weights.defined()) return source(weights);
  return {.number = generic::Number::kF32, .data = nullptr};
}

}  // namespace

Tensor take_rows(const Tensor& x, std::span<const std::int32_t> rows, const Tensor& weights) {
  const std::size_t features = x.size(-1);
  Tensor out = Tensor::empty(x.device(), {rows.size(), features}, x.dtype());
  if (out.numel() == 0) return out;
  const Tensor list = gpu::upload(x.device(), rows);
  const Tensor factors = on_device_of(x, weights);
  const auto launched = launch("take_rows", {x, list, factors}, {out});
  launched.kernels().take_rows({.rows = rows.size(),
                                .features = features,
                                .of = gpu::integers(list),
                                .weights = weights_of(factors)},
                               target(out), source(x), launched.queue());
  return out;
}

Tensor sum_rows(const Tensor& x, std::span<const std::int32_t> rows, std::size_t terms,
                const Tensor& weights) {
  const std::size_t features = x.size(-1);
  const std::size_t sums = rows.size() / terms;
  Tensor out = Tensor::empty(x.device(), {sums, features}, x.dtype());
  if (out.numel() == 0) return out;
  const Tensor list = gpu::upload(x.device(), rows);
  const Tensor factors = on_device_of(x, weights);
  const auto launched = launch("sum_rows", {x, list, factors}, {out});
  launched.kernels().sum_rows({.sums = sums,
                               .features = features,
                               .terms = terms,
                               .rows = gpu::integers(list),
                               .weights = weights_of(factors)},
                              target(out), source(x), launched.queue());
  return out;
}

Tensor dot_rows(const Tensor& a, const Tensor& b, std::span<const std::int32_t> rows) {
  Tensor out = Tensor::empty(a.device(), {rows.size()}, a.dtype());
  if (rows.empty()) return out;
  const Tensor list = gpu::upload(a.device(), rows);
  const auto launched = launch("dot_rows", {a, b, list}, {out});
  launched.kernels().dot_rows({.rows = rows.size(),
                               .features = a.size(-1),
                               .of = gpu::integers(list),
                               .weights = weights_of(Tensor())},
                              target(out), source(a), source(b), launched.queue());
  return out;
}

}  // namespace ultra::ops
