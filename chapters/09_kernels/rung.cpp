#include "chapters/09_kernels/rung.hpp"

#include "kernels/device/device_info.hpp"

namespace ultra::ladders {

std::string refuse_long_rows(int length, int most, const RowHolder& holder) {
  return length <= most
             ? std::string()
             : fmt::format("a row of {}{} does not fit {}, expected at most {}. Hint: {}", length,
                           holder.unit, holder.name, most, holder.hint);
}

std::string refuse_other_gpus_than_hopper(int last_rung_for_any) {
  const std::vector<kernels::DeviceInfo> devices = kernels::list_devices();
  if (!devices.empty() &&
      (devices[0].compute_capability_major != 9 || devices[0].compute_capability_minor != 0)) {
    return fmt::format(
        "{} has compute capability {}.{}, expected 9.0 (H100, H200): wgmma exists nowhere else. "
        "Hint: rungs 1 to {} run on any GPU since the A100",
        devices[0].name, devices[0].compute_capability_major, devices[0].compute_capability_minor,
        last_rung_for_any);
  }
  return {};
}

}  // namespace ultra::ladders
