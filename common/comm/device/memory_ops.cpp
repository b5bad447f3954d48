#include "common/comm/device/memory_ops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/comm/engine/tensor_bytes.hpp"
#include "common/tensor/backend/generic_operands.hpp"
#include "common/tensor/backend/kernels_of.hpp"
#include "kernels/generic/elements/combine.hpp"

namespace ultra::comm {
namespace {

namespace generic = kernels::generic;
using backend::number_of;

class HostMemory final : public MemoryOps {
 public:
  void copy(void* to, const void* from, std::size_t bytes) const override {
    if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  }
  void combine(const Combine& how, void* into, const void* from, std::size_t count) const override {
    comm::combine(how, into, from, count);
  }
  std::size_t most_combined() const override { return std::numeric_limits<std::size_t>::max(); }
  void combine_all(const Combine& how, std::span<void* const> into,
                   std::span<const void* const> from, std::size_t count) const override {
    comm::combine_all(how, into, from, count);
  }
  void divide(DType dtype, void* data, std::size_t count, int divisor) const override {
    comm::divide(dtype, data, count, divisor);
  }
};

generic::Combination combination_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMax:
      return generic::Combination::kMax;
    case ReduceOp::kMin:
      return generic::Combination::kMin;
    case ReduceOp::kAverage:
      return generic::Combination::kAverage;
    case ReduceOp::kSum:
      break;
  }
  return generic::Combination::kSum;
}

/// Combines by the device's kernels.
class KernelMemory final : public DeviceMemory {
 public:
  KernelMemory(const Device& device, std::string operation)
      : DeviceMemory(device, std::move(operation)), kernels_(backend::kernels_of(device)) {}

  void combine(const Combine& how, void* into, const void* from, std::size_t count) const override {
    if (count == 0) return;
    const std::size_t bytes = count * size_of(how.dtype);
    const gpu::Launch launch = launched({{into, bytes}, {from, bytes}}, {{into, bytes}});
    const generic::Number number = number_of(how.dtype);
    kernels_.combine(combination_of(how.op), {number, into}, {number, from}, count, launch.queue());
  }

  std::size_t most_combined() const override { return generic::kMostRanks; }

  void combine_all(const Combine& how, std::span<void* const> into,
                   std::span<const void* const> from, std::size_t count) const override {
    expect_few_enough(std::max(into.size(), from.size()));
    if (count == 0) return;
    const std::size_t bytes = count * size_of(how.dtype);
    std::vector<gpu::Region> reads;
    std::vector<gpu::Region> writes;
    for (const void* source : from) reads.push_back({source, bytes});
    for (const void* target : into) writes.push_back({target, bytes});
    const gpu::Launch launch(device().streams(), kRole, operation(), reads, writes);
    kernels_.combine_all(combination_of(how.op), number_of(how.dtype), into, from, count,
                         launch.queue());
  }

  void divide(DType dtype, void* data, std::size_t count, int divisor) const override {
    if (count == 0) return;
    const std::size_t bytes = count * size_of(dtype);
    const gpu::Launch launch = launched({{data, bytes}}, {{data, bytes}});
    kernels_.divide({number_of(dtype), data}, count, divisor, launch.queue());
  }

 private:
  static constexpr auto kRole = gpu::StreamRole::kCommunication;

  [[nodiscard]] gpu::Launch launched(std::initializer_list<gpu::Region> reads,
                                     std::initializer_list<gpu::Region> writes) const {
    return {device().streams(), kRole, operation(), reads, writes};
  }

  static void expect_few_enough(std::size_t ranks) {
    if (ranks <= generic::kMostRanks) return;
    throw ConfigError(fmt::format(
        "{} ranks that share a device reduce at once; the kernel takes up to {}. Use algorithms "
        "over send and receive (--collectives ours), or fewer ranks.",
        ranks, generic::kMostRanks));
  }

  const kernels::Table& kernels_;
};

}  // namespace

const MemoryOps& host_memory() {
  static const HostMemory kHost;
  return kHost;
}

std::shared_ptr<const DeviceMemory> DeviceMemory::of(const Device& device, std::string operation) {
  return std::make_shared<KernelMemory>(device, std::move(operation));
}

void DeviceMemory::after(const gpu::Event& event) const {
  device_.streams().wait(gpu::StreamRole::kCommunication, event);
}

gpu::Event DeviceMemory::record() const {
  return device_.streams().record(gpu::StreamRole::kCommunication);
}

void DeviceMemory::copy(void* to, const void* from, std::size_t bytes) const {
  if (bytes == 0 || to == from) return;
  const gpu::Launch launch(device_.streams(), gpu::StreamRole::kCommunication, operation_,
                           {{from, bytes}}, {{to, bytes}});
  device_.streams().copy(gpu::StreamRole::kCommunication, to, from, bytes,
                         gpu::CopyKind::kDeviceToDevice);
}

void combine_tensors(ReduceOp op, const Tensor& into, std::span<const Tensor> from) {
  std::vector<const void*> sources;
  for (const Tensor& source : from) sources.push_back(memory_of(source).data());
  void* const target = memory_of(into).data();
  const Combine how{.dtype = into.dtype(), .op = op};
  const std::span<void* const> targets(&target, 1);
  const Device& device = into.device();
  if (!has_streams(device.kind())) return combine_all(how, targets, sources, into.numel());
  // The kernel runs on the communication stream: after what the caller's stream has, and before what
  // it will be given.
  const auto memory = DeviceMemory::of(device, "combine");
  memory->after(device.streams().record(gpu::current_role()));
  memory->combine_all(how, targets, sources, into.numel());
  device.streams().wait(gpu::current_role(), memory->record());
}

}  // namespace ultra::comm
