#pragma once
/// @file
/// A tiny training on a device, compared with the same training on the CPU.

#include <gtest/gtest.h>

#include <ostream>

#include "common/tensor/device.hpp"
#include "tests/devices/layouts.hpp"

namespace ultra::devices {

/// @brief Trains both ways on ranks that are threads, and expects what the layout's likeness says.
void expect_equal_to_cpu(const Layout& layout, DeviceKind device);

/// @brief "05_tensor_sequence_parallel_Tensor": a test's name.
[[nodiscard]] std::string name_of(const ::testing::TestParamInfo<Layout>& info);

/// @brief Its name, for messages.
void PrintTo(const Layout& layout, std::ostream* out);

}  // namespace ultra::devices
