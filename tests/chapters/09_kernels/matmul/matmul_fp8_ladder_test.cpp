// What the rungs of matmul_fp8 read, in counters.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class MatmulFp8Ladder : public test::LadderTest {
 protected:
  MatmulFp8Ladder() : LadderTest("matmul_fp8", {128, 256, 256}) {}
};

// Two tiles: each reads its rows of both factors, a byte an element; both factors' bytes are loaded
// in 16, scales in 4.
TEST_F(MatmulFp8Ladder, AnElementIsAByte) {
  for (const std::string& rung : emulated_rungs()) {
    std::uint64_t elements = 0;
    for (const simt::Site& site : counters_of(rung).sites) {
      elements += site.kind == AccessKind::kGlobalLoad && site.size == 16 ? site.bytes : 0;
    }
    EXPECT_EQ(elements, 2U * (128 + 128) * 256) << rung;
  }
}

TEST_F(MatmulFp8Ladder, RowsOfBytesHaveNoBankConflicts) {
  for (const std::string& rung : emulated_rungs()) {
    const simt::Site loads = counters_of(rung).total(AccessKind::kSharedLoad);
    EXPECT_EQ(loads.wavefronts, loads.ideal_wavefronts) << rung;
  }
}

// Both multiply the same numbers and promote the same sums: only the order of 32 products differs.
TEST_F(MatmulFp8Ladder, CornersAreRight) {
  for (const std::string& rung : emulated_rungs()) {
    for (const Sizes& sizes : std::vector<Sizes>{
             {1, 1, 128}, {129, 130, 128}, {5, 257, 256}, {130, 7, 640}, {64, 64, 1024}}) {
      expect_right(rung, {.sizes = sizes});
    }
  }
}

TEST_F(MatmulFp8Ladder, RefusesRaggedGroups) {
  EXPECT_THAT(refusal_of("tensor_cores", {4, 4, 130}), testing::HasSubstr("multiple of 128"));
}

}  // namespace
}  // namespace ultra::ladders
