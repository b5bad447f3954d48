// The CUDA runtime of a build without CUDA: there is none.

#include "common/base/errors.hpp"
#include "common/gpu/runtime.hpp"

namespace ultra::gpu {

std::shared_ptr<Runtime> make_cuda_runtime(int) {
  throw ConfigError(
      "device cuda: this build has no CUDA, because no nvcc was found when it was configured. "
      "Install the CUDA toolkit and run ./workbook setup again, or use --device cpu or emulated.");
}

}  // namespace ultra::gpu
