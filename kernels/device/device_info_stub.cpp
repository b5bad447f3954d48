// list_devices() of a build without CUDA: there is never a GPU.

#include "kernels/device/device_info.hpp"

namespace ultra::kernels {

std::vector<DeviceInfo> list_devices() { return {}; }

}  // namespace ultra::kernels
