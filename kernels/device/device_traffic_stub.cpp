// The traffic of a build without CUDA: there is none.

#include "kernels/device/device_traffic.hpp"
#include "kernels/simt/error.hpp"

namespace ultra::kernels {

struct DeviceTraffic::Memory {};

DeviceTraffic::DeviceTraffic(std::size_t, std::size_t) {
  throw simt::SimtError(
      simt::Fault::kCuda,
      "reads and writes on the GPU: this build has no CUDA, expected nvcc at configuration. "
      "Hint: run the kernel in the emulator, or install the CUDA toolkit");
}

DeviceTraffic::~DeviceTraffic() = default;
void DeviceTraffic::launch() {}

}  // namespace ultra::kernels
