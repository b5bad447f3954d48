#include "common/tensor/backend/device_copies.hpp"

#include "common/gpu/streams.hpp"
#include "common/tensor/backend/generic_operands.hpp"
#include "common/tensor/backend/kernels_of.hpp"
#include "common/tensor/regions.hpp"
#include "kernels/generic/elements/copy.hpp"

namespace ultra::backend {
namespace {

using gpu::CopyKind;
using gpu::Launch;

bool is_on_host(const Tensor& tensor) { return !has_streams(tensor.device().kind()); }

void copy_bytes(const Launch& launch, const Tensor& to, const Tensor& from, gpu::Streams& streams,
                CopyKind kind) {
  static_cast<void>(launch);  // says what the copy touches, until it ends
  streams.copy(gpu::current_role(), to.address(), from.address(), to.nbytes(), kind);
}

void copy_between_devices(const Tensor& to, const Tensor& from) {
  gpu::Streams& streams = to.device().streams();
  const bool is_plain = to.dtype() == from.dtype() && to.is_contiguous() && from.is_contiguous();
  const Launch launch(streams, gpu::current_role(), is_plain ? "copy" : "strided copy",
                      {region_of(from)}, {region_of(to)});
  if (is_plain) return copy_bytes(launch, to, from, streams, CopyKind::kDeviceToDevice);
  kernels_of(to.device())
      .copy(target_of(to), layout_of(to), source_of(from), layout_of(from), launch.queue());
}

/// Two ranks' devices: each stream waits for the other one's, before and after.
void copy_between_ranks(const Tensor& to, const Tensor& from) {
  const gpu::StreamRole role = gpu::current_role();
  gpu::Streams& ours = to.device().streams();
  gpu::Streams& theirs = from.device().streams();
  ours.wait(role, theirs.record(role));
  copy_between_devices(to, from);
  theirs.wait(role, ours.record(role));
}

void copy_to_device(const Tensor& to, const Tensor& from) {
  const Tensor values = from.dtype() == to.dtype() ? from.contiguous() : from.to(to.dtype());
  if (to.is_contiguous()) return upload_to_device(to, values.address());
  const Tensor dense = Tensor::empty(to.device(), to.shape(), to.dtype());
  upload_to_device(dense, values.address());
  copy_between_devices(to, dense);
}

void copy_to_host(const Tensor& to, const Tensor& from) {
  const Tensor dense = from.contiguous();
  const bool is_direct =
      to.device() == from.device().host() && to.dtype() == from.dtype() && to.is_contiguous();
  const Tensor pinned =
      is_direct ? to : Tensor::empty(from.device().host(), from.shape(), from.dtype());
  gpu::Streams& streams = from.device().streams();
  copy_bytes(Launch(streams, gpu::current_role(), "copy to the host", {region_of(dense)}, {}),
             pinned, dense, streams, CopyKind::kDeviceToHost);
  streams.synchronize(gpu::current_role());
  if (!is_direct) cast_into(to, pinned);
}

}  // namespace

void clear_on_device(const Tensor& tensor) {
  gpu::Streams& streams = tensor.device().streams();
  const Launch launch(streams, gpu::current_role(), "clear", {}, {region_of(tensor)});
  streams.clear(gpu::current_role(), tensor.address(), tensor.nbytes());
}

void fill_on_device(const Tensor& tensor, double value) {
  if (value == 0 && tensor.is_contiguous()) return clear_on_device(tensor);
  const Launch launch(tensor.device().streams(), gpu::current_role(), "fill", {},
                      {region_of(tensor)});
  kernels_of(tensor.device()).fill(target_of(tensor), layout_of(tensor), value, launch.queue());
}

void upload_to_device(const Tensor& to, const void* values) {
  to.device().streams().upload(gpu::current_role(), to.address(), values, to.nbytes());
}

void copy_on_devices(const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return;
  if (is_on_host(from)) return copy_to_device(to, from);
  if (is_on_host(to)) return copy_to_host(to, from);
  if (to.device() == from.device()) return copy_between_devices(to, from);
  copy_between_ranks(to, from);
}

}  // namespace ultra::backend
