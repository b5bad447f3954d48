// The rungs of attention_bf16 on a GPU where the sizes of its tiles show: one query, ends inside a tile of
// keys or of queries, rings of stages that go round several times, heads that share keys, rows that are
// shorter than a tile's.

#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/device/device_info.hpp"
#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

constexpr std::uint64_t kFull = 4;  // an even seed: no causal mask
constexpr std::uint64_t kCausal = 5;

TEST(AttentionBf16OnGpu, IsRightWhereTilesEndAndRingsGoRound) {
  if (kernels::list_devices().empty()) {
    GTEST_SKIP() << "no GPU on this machine";
  }
  const auto ladder = test::find_ladder("attention_bf16");
  for (const RungInfo& rung : ladder->rungs()) {
    for (const Sizes& sizes :
         {Sizes{1, 1, 1, 1, 64}, Sizes{1, 1, 1, 1, 128}, Sizes{2, 3, 1, 127, 128},
          Sizes{1, 2, 4, 129, 128}, Sizes{1, 1, 2, 193, 64}, Sizes{2, 1, 2, 257, 40},
          Sizes{1, 2, 1, 640, 104}, Sizes{2, 2, 2, 1100, 128}, Sizes{2, 2, 2, 1100, 64}}) {
      for (const std::uint64_t seed : {kFull, kCausal}) {
        if (ladder->refusal(rung.number, sizes, simt::Side::kGpu).empty()) {
          test::expect_right(*ladder, rung.number,
                             {.sizes = sizes, .seed = seed, .side = simt::Side::kGpu});
        }
      }
    }
  }
}

}  // namespace
}  // namespace ultra::ladders
