// Covers: common/gpu/none/no_devices.cpp

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/errors.hpp"
#include "common/gpu/runtime.hpp"

namespace ultra::gpu {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(NoDevices, AreRefusedWithWhatBuildsThem) {
  const auto says = [](const char* device) {
    return ThrowsMessage<ConfigError>(AllOf(
        HasSubstr(std::string("device ") + device + ": this program was built for the CPU alone"),
        HasSubstr(std::string("./workbook run NN --device ") + device),
        HasSubstr("-D ULTRA_DEVICES=ON")));
  };
  EXPECT_THAT([] { return make_emulated_runtime(); }, says("emulated"));
  EXPECT_THAT([] { return make_cuda_runtime(0); }, says("cuda"));
}

}  // namespace
}  // namespace ultra::gpu
