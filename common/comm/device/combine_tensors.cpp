#include "common/comm/device/combine_tensors.hpp"

#include <vector>

#include "common/comm/device/memory_ops.hpp"
#include "common/comm/engine/tensor_bytes.hpp"

namespace ultra::comm {

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
