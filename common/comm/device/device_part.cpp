#include "common/comm/device/device_part.hpp"

#include <algorithm>

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

}  // namespace ultra::comm
