#include "common/tensor/host_view.hpp"

#include <utility>

#include "common/base/errors.hpp"
#include "common/gpu/streams.hpp"
#include "common/tensor/regions.hpp"

namespace ultra {
namespace {

Tensor host_side(const Tensor& tensor, HostAccess access) {
  const Device& device = tensor.device();
  if (!has_streams(device.kind())) return tensor;
  if (access != HostAccess::kWrite) return tensor.to(device.host());
  return Tensor::empty(device.host(), tensor.shape(), tensor.dtype());
}

}  // namespace

Tensor unread_on_host(const Tensor& tensor) {
  const Device& device = tensor.device();
  ensure(!has_numbers(device.kind()), "a tensor without numbers");
  gpu::Streams& streams = device.streams();
  const gpu::StreamRole role = gpu::current_role();
  {
    const gpu::Launch launch(streams, role, "copy to the host", {region_of(tensor)}, {});
    streams.copy(role, nullptr, tensor.address(), tensor.nbytes(), gpu::CopyKind::kDeviceToHost);
  }
  streams.synchronize(role);
  return Tensor::empty(device.host(), tensor.shape(), tensor.dtype());
}

HostCopy::HostCopy(const Tensor& tensor, HostAccess access)
    : tensor_(tensor),
      host_(host_side(tensor, access)),
      writes_back_(access != HostAccess::kRead && has_streams(tensor.device().kind())) {}

void HostCopy::finish() {
  if (std::exchange(writes_back_, false)) tensor_.copy_from(host_);
}

}  // namespace ultra
