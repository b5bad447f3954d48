#include "common/ops/backend/backend.hpp"

#include "common/ops/backend/gpu/kernel_backend.hpp"

namespace ultra::ops {

const Backend& backend_of(const Device& device) {
  if (!has_numbers(device.kind())) return meta_backend();
  const bool by_trees = device.matmul_library() == MatmulLibrary::kTrees;
  if (has_streams(device.kind())) return by_trees ? tree_kernel_backend() : kernel_backend();
  return by_trees ? tree_backend() : cpu_backend();
}

const Backend& kernel_backend() {
  static const gpu::KernelBackend backend;
  return backend;
}

const Backend& tree_kernel_backend() {
  static const gpu::TreeKernelBackend backend;
  return backend;
}

}  // namespace ultra::ops
