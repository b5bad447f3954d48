#include "common/ops/backend/backend.hpp"

namespace ultra::ops {

const Backend& backend_of(const Device& device) {
  switch (device.kind()) {
    case DeviceKind::kCpu:
      return cpu_backend();
    case DeviceKind::kCuda:
      return cuda_backend();
    case DeviceKind::kEmulated:
      break;
  }
  return emulated_backend();
}

}  // namespace ultra::ops
