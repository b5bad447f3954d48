// Every chapter's ways to train on the emulated device: the CUDA backend's code, its streams and events,
// with the kernels on the host. A missing event throws OrderError here.
#include <gtest/gtest.h>

#include "tests/devices/equal_to_cpu.hpp"
#include "tests/devices/host_waits.hpp"

namespace ultra::devices {
namespace {

class Emulated : public ::testing::TestWithParam<Layout> {};

TEST_P(Emulated, TrainsAsTheCpuDoes) { expect_equal_to_cpu(GetParam(), DeviceKind::kEmulated); }

TEST_P(Emulated, TheHostWaitsAsOftenAsTheTableSays) {
  expect_waits_of_the_table(GetParam(), DeviceKind::kEmulated);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Emulated, ::testing::ValuesIn(layouts()), name_of);

}  // namespace
}  // namespace ultra::devices
