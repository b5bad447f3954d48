#include "common/comm/engine/operation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/comm/engine/tensor_bytes.hpp"

namespace ultra {
namespace {

std::string describe_data(const OperationInfo& info) {
  std::string elements = fmt::format("{} {}", info.count, to_string(info.dtype));
  if (info.device != DeviceKind::kCpu) elements += fmt::format(" on {}", to_string(info.device));
  switch (info.kind) {
    case OpKind::kBroadcast:
    case OpKind::kScatter:
      return fmt::format(" ({} from rank {})", elements, info.root);
    case OpKind::kReduce:
      return fmt::format(" ({} of {} to rank {})", to_string(info.op), elements, info.root);
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
      return fmt::format(" ({} of {})", to_string(info.op), elements);
    case OpKind::kGather:
    case OpKind::kSend:
      return fmt::format(" ({} to rank {})", elements, info.root);
    case OpKind::kRecv:
      return fmt::format(" ({} from rank {})", elements, info.root);
    case OpKind::kAllGather:
    case OpKind::kAllToAll:
      return fmt::format(" ({})", elements);
    case OpKind::kBarrier:
      break;
  }
  return "";
}

std::string describe_label(const OperationInfo& info) {
  return info.label.empty() ? "" : fmt::format(" [{}]", info.label);
}

}  // namespace

std::string_view to_string(OpKind kind) {
  constexpr std::string_view kNames[kOpKinds] = {
      "broadcast",      "reduce",     "all_reduce", "gather", "scatter", "all_gather",
      "reduce_scatter", "all_to_all", "barrier",    "send",   "recv"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string call_text(const OperationInfo& info) {
  return fmt::format("{}{}{}", to_string(info.kind), describe_data(info), describe_label(info));
}

std::string stream_name(const OperationInfo& info) {
  return fmt::format("{} of '{}'{}", to_string(info.kind), info.communicator, describe_label(info));
}

std::string to_string(const OperationInfo& info) {
  return fmt::format("{} #{} of '{}'{}{}", to_string(info.kind), info.sequence, info.communicator,
                     describe_data(info), describe_label(info));
}

}  // namespace ultra

namespace ultra::comm {

DevicePart::DevicePart(const std::vector<Tensor>& tensors, const std::string& operation) {
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined() || !has_streams(tensor.device().kind())) continue;
    if (!device_) device_ = DeviceMemory::of(tensor.device(), operation);
    tensor.used_on(gpu::StreamRole::kCommunication);
  }
  if (device_) ready_ = device_->device().streams().record(gpu::current_role());
}

void DevicePart::ends_with(const DevicePart& other) {
  ends_.insert(ends_.end(), other.ends_.begin(), other.ends_.end());
}

bool DevicePart::has_begun() const {
  return !exists() || device_->device().streams().has_passed(ready_);
}

bool DevicePart::has_ended() const {
  return std::ranges::all_of(
      ends_, [this](const gpu::Event& end) { return device_->device().streams().has_passed(end); });
}

void DevicePart::join() const {
  for (const gpu::Event& end : ends_) {
    device_->device().streams().wait(gpu::current_role(), end);
  }
  joined_ = true;
}

DevicePart::~DevicePart() {
  if (joined_) return;
  try {
    // Other ranks' streams have used the memory too: its pool asks this rank's streams alone.
    for (const gpu::Event& end : ends_) device_->after(end);
  } catch (...) {
    // The device has failed: whoever uses it next is told so.
  }
}

void divide_average(const CollectiveCall& call, int size, const MemoryOps& memory) {
  if (call.info.op != ReduceOp::kAverage || !call.output.defined()) return;
  memory.divide(call.info.dtype, memory_of(call.output).data(), call.output.numel(), size);
}

DevicePart device_part_of(const CollectiveCall& call) {
  if (call.info.device == DeviceKind::kCpu) return {};
  return DevicePart({call.input, call.output}, stream_name(call.info));
}

}  // namespace ultra::comm
