#include "common/ops/backend/backend.hpp"

#include "common/ops/backend/gpu/kernel_backend.hpp"

namespace ultra::ops {

const Backend& backend_of(const Device& device) {
  if (!has_numbers(device.kind())) return meta_backend();
  if (has_streams(device.kind())) return kernel_backend();
  return device.matmul_library() == MatmulLibrary::kOurs ? tree_backend() : cpu_backend();
}

const Backend& kernel_backend() {
  static const gpu::KernelBackend backend;
  return backend;
}

}  // namespace ultra::ops
