#include "chapters/10_mixed_precision/training/sum_drift.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "common/comm/collectives/reduce_op.hpp"
#include "common/comm/engine/tensor_bytes.hpp"
#include "common/tensor/philox.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr std::size_t kElements = 1024;

/// The gradient of one micro-batch.
Tensor gradient(std::size_t micro_batch, DType dtype, const PhiloxStream& noise) {
  const Tensor wide = Tensor::empty(Device::cpu(), {kElements}, DType::kF32);
  for (std::size_t i = 0; i < kElements; ++i) {
    wide.data<float>()[i] = static_cast<float>(1.0 + noise.normal(micro_batch * kElements + i));
  }
  return cast(wide, dtype);
}

void add(const Tensor& sum, const Tensor& term) {
  comm::combine({.dtype = sum.dtype(), .op = ReduceOp::kSum}, comm::bytes_of(sum).data(),
                comm::bytes_of(term).data(), sum.numel());
}

double error_of(const Tensor& sum, const std::vector<double>& exact) {
  const std::vector<double> found = cast(sum, DType::kF32).to_vector();
  double squares = 0;
  double length = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    squares += (found[i] - exact[i]) * (found[i] - exact[i]);
    length += exact[i] * exact[i];
  }
  return std::sqrt(squares / length);
}

}  // namespace

SumDrift sum_drift(std::size_t micro_batches, DType dtype, std::uint64_t seed) {
  const PhiloxStream noise(seed, "gradients of micro-batches");
  const Tensor half = Tensor::zeros(Device::cpu(), {kElements}, dtype);
  const Tensor wide = Tensor::zeros(Device::cpu(), {kElements}, DType::kF32);
  std::vector<double> exact(kElements, 0.0);
  for (std::size_t i = 0; i < micro_batches; ++i) {
    const Tensor term = gradient(i, dtype, noise);
    const Tensor same = cast(term, DType::kF32);
    add(half, term);
    add(wide, same);
    const std::vector<double> values = same.to_vector();
    for (std::size_t k = 0; k < kElements; ++k) exact[k] += values[k];
  }
  return {.micro_batches = micro_batches,
          .rounded_each = error_of(half, exact),
          .rounded_once = error_of(cast(wide, dtype), exact)};
}

std::string sum_drift_table(std::uint64_t seed) {
  std::string table =
      "Error of a sum of gradients, over its length\n\n"
      "  micro-batches   bf16, rounded each time      once   f16, rounded each time      once\n";
  for (std::size_t n = 1; n <= 1024; n *= 4) {
    const SumDrift bf16 = sum_drift(n, DType::kBF16, seed);
    const SumDrift f16 = sum_drift(n, DType::kF16, seed);
    fmt::format_to(std::back_inserter(table), "  {:>13}{:>26.1e}{:>10.1e}{:>25.1e}{:>10.1e}\n", n,
                   bf16.rounded_each, bf16.rounded_once, f16.rounded_each, f16.rounded_once);
  }
  return table;
}

}  // namespace ultra::mixed_precision
