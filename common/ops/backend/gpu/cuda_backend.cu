#include "common/ops/backend/gpu/kernel_backend_impl.hpp"

namespace ultra::ops {

const Backend& cuda_backend() {
  static const gpu::KernelBackend<simt::Side::kGpu> backend;
  return backend;
}

}  // namespace ultra::ops
