#include "chapters/09_kernels/rung.hpp"

#include "kernels/device/device_info.hpp"

namespace ultra::ladders {

std::string refuse_long_rows(int length, int most, const RowHolder& holder) {
  return length <= most
             ? std::string()
             : fmt::format("a row of {}{} does not fit {}, expected at most {}. Hint: {}", length,
                           holder.unit, holder.name, most, holder.hint);
}

std::string refuse_gpus_before(int major, int minor, const char* feature, const char* hint) {
  const std::vector<kernels::DeviceInfo> devices = kernels::list_devices();
  if (devices.empty()) {
    return {};
  }
  const int found_major = devices[0].compute_capability_major;
  const int found_minor = devices[0].compute_capability_minor;
  if (found_major > major || (found_major == major && found_minor >= minor)) {
    return {};
  }
  return fmt::format("{} has compute capability {}.{}, expected {}.{} or later for {}. Hint: {}",
                     devices[0].name, found_major, found_minor, major, minor, feature, hint);
}

}  // namespace ultra::ladders
