// The rungs of matmul_bf16 that copy whole units, on a GPU: edges inside a tile, depths that end inside a
// stage and go round the ring, more tiles than multiprocessors, an odd number of tiles for clusters.

#include <gtest/gtest.h>

#include "kernels/device/device_info.hpp"
#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

TEST(MatmulBf16OnGpu, IsRightForRaggedMultiplesOfEight) {
  if (kernels::list_devices().empty()) {
    GTEST_SKIP() << "no GPU on this machine";
  }
  const auto ladder = test::find_ladder("matmul_bf16");
  for (const RungInfo& rung : ladder->rungs()) {
    for (const Sizes& sizes : {Sizes{1, 8, 8}, Sizes{64, 64, 64}, Sizes{136, 264, 72},
                               Sizes{257, 520, 456}, Sizes{4101, 1288, 200}}) {
      if (ladder->refusal(rung.number, sizes, simt::Side::kGpu).empty()) {
        test::expect_right(*ladder, rung.number,
                           {.sizes = sizes, .seed = 5, .side = simt::Side::kGpu});
      }
    }
  }
}

}  // namespace
}  // namespace ultra::ladders
