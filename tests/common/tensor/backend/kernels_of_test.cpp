#include "common/tensor/backend/kernels_of.hpp"

#include <gtest/gtest.h>

namespace ultra::backend {
namespace {

TEST(KernelsOf, TheEmulatedDeviceRunsTheBareSide) {
  EXPECT_EQ(&kernels_of(Device::create(DeviceKind::kEmulated)),
            &kernels::table<simt::Side::kBare>());
}

TEST(KernelsOf, TheHostRunsNone) {
  EXPECT_THROW(static_cast<void>(kernels_of(Device::cpu())), InternalError);
}

}  // namespace
}  // namespace ultra::backend
