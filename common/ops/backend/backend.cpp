#include "common/ops/backend/backend.hpp"

#include "common/base/errors.hpp"

namespace ultra::ops {

const Backend& backend_of(const Device& device) {
  if (device.kind() != DeviceKind::kCpu) {
    throw ConfigError("device cuda: this build has no CUDA operations. Use --device cpu.");
  }
  return cpu_backend();
}

}  // namespace ultra::ops
