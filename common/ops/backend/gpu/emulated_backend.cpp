#include "common/ops/backend/gpu/kernel_backend_impl.hpp"

namespace ultra::ops {

const Backend& emulated_backend() {
  static const gpu::KernelBackend<simt::Side::kBare> backend;
  return backend;
}

}  // namespace ultra::ops
