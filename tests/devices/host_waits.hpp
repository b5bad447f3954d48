#pragma once
/// @file
/// How often the host waits for its device within a step, for every way to train.
///
/// Once is for the loss and the norm, which are read together at the end; the rest is named in the source's
/// table and in docs/devices.md.

#include "common/tensor/device.hpp"
#include "tests/devices/layouts.hpp"

namespace ultra::devices {

/// @brief Trains four steps on ranks that are threads, and expects that the one that waits most waits as
/// often in the third as the table says.
void expect_waits_of_the_table(const Layout& layout, DeviceKind device);

}  // namespace ultra::devices
