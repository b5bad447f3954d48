// The copy of a build without CUDA: there is none.

#include "kernels/device/device_copy.hpp"
#include "kernels/simt/error.hpp"

namespace ultra::kernels {

struct DeviceCopy::Memory {};

DeviceCopy::DeviceCopy(std::size_t) {
  throw simt::SimtError(
      simt::Fault::kCuda,
      "a copy on the GPU: this build has no CUDA, expected nvcc at configuration. "
      "Hint: run the kernel in the emulator, or install the CUDA toolkit");
}

DeviceCopy::~DeviceCopy() = default;
void DeviceCopy::launch() {}

}  // namespace ultra::kernels
