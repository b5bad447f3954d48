// What the rungs of quantize_fp8 change, in counters.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class QuantizeFp8Ladder : public test::LadderTest {
 protected:
  QuantizeFp8Ladder() : LadderTest("quantize_fp8", {8, 512}) {}

  // Sectors of a matrix in bf16 and in fp8; 32 scales are 4 sectors.
  static constexpr std::uint64_t kBf16 = 2 * 8 * 512 / 32;
  static constexpr std::uint64_t kFp8 = 8 * 512 / 32;
};

// Each of 128 loads of a group's thread touches a sector of its own; then all is read once more.
TEST_F(QuantizeFp8Ladder, AThreadPerGroupReadsASectorForEachElement) {
  const std::uint64_t elements = 8 * 512;
  const std::uint64_t scales_again = elements / 32;  // one word for a warp
  EXPECT_EQ(counters_of("two_kernels").total(AccessKind::kGlobalLoad).sectors,
            elements + kBf16 + scales_again);
}

TEST_F(QuantizeFp8Ladder, OneKernelReadsOnce) {
  for (const char* rung : {"warp_per_group", "vectorised"}) {
    EXPECT_EQ(bytes_asked(counters_of(rung)), least_bytes()) << rung;
    EXPECT_EQ(counters_of(rung).total(AccessKind::kGlobalLoad).sectors, kBf16) << rung;
  }
}

TEST_F(QuantizeFp8Ladder, SixteenLanesPerGroupTakeHalfOfTheRequests) {
  const auto loads = [&](const char* rung) {
    return counters_of(rung).total(AccessKind::kGlobalLoad).requests;
  };
  EXPECT_EQ(loads("warp_per_group"), 2 * loads("vectorised"));
}

// An odd number of groups: half of the last warp has none.
TEST_F(QuantizeFp8Ladder, AnyNumberOfGroupsIsRight) {
  for (const std::string& rung : emulated_rungs()) {
    for (const Sizes& sizes : std::vector<Sizes>{{1, 128}, {3, 128}, {5, 640}, {33, 128}}) {
      expect_right(rung, {.sizes = sizes});
    }
  }
}

TEST_F(QuantizeFp8Ladder, RaggedGroupsAreRefused) {
  EXPECT_THAT(refusal_of("vectorised", {2, 130}), testing::HasSubstr("multiple of 128"));
}

}  // namespace
}  // namespace ultra::ladders
