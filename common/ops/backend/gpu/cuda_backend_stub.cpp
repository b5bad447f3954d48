#include "common/base/errors.hpp"
#include "common/ops/backend/backend.hpp"

namespace ultra::ops {

const Backend& cuda_backend() {
  throw ConfigError(
      "device cuda: this build has no CUDA operations. Build where nvcc is, or use --device "
      "emulated or cpu.");
}

}  // namespace ultra::ops
