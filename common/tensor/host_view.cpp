#include "common/tensor/host_view.hpp"

#include <utility>

namespace ultra {
namespace {

Tensor host_side(const Tensor& tensor, HostAccess access) {
  const Device& device = tensor.device();
  if (!has_streams(device.kind())) return tensor;
  if (access != HostAccess::kWrite) return tensor.to(device.host());
  return Tensor::empty(device.host(), tensor.shape(), tensor.dtype());
}

}  // namespace

HostCopy::HostCopy(const Tensor& tensor, HostAccess access)
    : tensor_(tensor),
      host_(host_side(tensor, access)),
      writes_back_(access != HostAccess::kRead && has_streams(tensor.device().kind())) {}

void HostCopy::finish() {
  if (std::exchange(writes_back_, false)) tensor_.copy_from(host_);
}

}  // namespace ultra
