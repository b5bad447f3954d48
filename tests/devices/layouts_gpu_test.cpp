// Every chapter's ways to train on a GPU, which the ranks share where there is one for all of them.
#include <gtest/gtest.h>

#include "common/base/errors.hpp"
#include "tests/devices/equal_to_cpu.hpp"
#include "tests/devices/host_waits.hpp"

namespace ultra::devices {
namespace {

class Gpu : public ::testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    try {
      static_cast<void>(Device::create(DeviceKind::kCuda));
    } catch (const ConfigError& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

TEST_P(Gpu, TrainsAsTheCpuDoes) { expect_equal_to_cpu(GetParam(), DeviceKind::kCuda); }

TEST_P(Gpu, TheHostWaitsAsOftenAsTheTableSays) {
  expect_waits_of_the_table(GetParam(), DeviceKind::kCuda);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Gpu, ::testing::ValuesIn(layouts()), name_of);

}  // namespace
}  // namespace ultra::devices
