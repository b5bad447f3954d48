// Covers: common/ops/backend/cpu/kernels.hpp, common/ops/backend/cpu/gemm.hpp
//
// The loops behind the backend are tested through the operations of common/ops, which are what
// calls them; see the tests of those.
#include "common/ops/backend/backend.hpp"

#include <gtest/gtest.h>

namespace ultra::ops {
namespace {

TEST(Backend, TheCpuHasOne) { EXPECT_EQ(&backend_of(Device::cpu()), &cpu_backend()); }

}  // namespace
}  // namespace ultra::ops
