// Every rung of every ladder on a GPU computes what an f64 loop computes.

#include <gtest/gtest.h>

#include <string>

#include "kernels/device/device_info.hpp"
#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

class RungsOnGpu : public test::RandomTest {
 protected:
  void SetUp() override {
    if (kernels::list_devices().empty()) {
      GTEST_SKIP() << "no GPU on this machine";
    }
  }
};

TEST_F(RungsOnGpu, AreRightForAnyShape) {
  for (const auto& ladder : all_ladders()) {
    for (const RungInfo& rung : ladder->rungs()) {
      Sizes sizes = ladder->default_sizes(simt::Side::kInstrumented);
      for (int draw = 0; draw < 6; ++draw) {
        if (ladder->refusal(rung.number, sizes, simt::Side::kGpu).empty()) {
          test::expect_right(*ladder, rung.number,
                             {.sizes = sizes, .seed = seed, .side = simt::Side::kGpu});
        }
        sizes = test::random_sizes(*ladder, random);
      }
    }
  }
}

}  // namespace
}  // namespace ultra::ladders
