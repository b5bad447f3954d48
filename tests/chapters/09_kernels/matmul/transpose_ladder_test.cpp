// What each rung of transpose changes, in counters.

#include <gtest/gtest.h>

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace transpose_ladder_test {

using simt::AccessKind;

// Sizes of whole tiles, so that every warp is full.
class TransposeLadder : public test::LadderTest {
 protected:
  TransposeLadder() : LadderTest("transpose", {128, 64}) {}
};

TEST_F(TransposeLadder, NaiveStoresASectorPerLane) {
  const simt::Report report = counters_of("naive");
  expect_sectors_per_request(report, 4.0, 32.0);
  EXPECT_EQ(bytes_moved(report), (1.0 + 8.0) / 2.0 * least_bytes());
}

TEST_F(TransposeLadder, TiledMovesTheLeastAndConflictsInSharedMemory) {
  const simt::Report report = counters_of("tiled");
  EXPECT_EQ(bytes_moved(report), least_bytes());
  EXPECT_EQ(report.total(AccessKind::kSharedStore).wavefronts_per_request(), 1.0);
  EXPECT_EQ(report.total(AccessKind::kSharedLoad).wavefronts_per_request(), 32.0);
}

TEST_F(TransposeLadder, PaddedHasNoConflicts) {
  const simt::Report report = counters_of("padded");
  EXPECT_EQ(bytes_moved(report), least_bytes());
  EXPECT_EQ(report.total(AccessKind::kSharedStore).wavefronts_per_request(), 1.0);
  EXPECT_EQ(report.total(AccessKind::kSharedLoad).wavefronts_per_request(), 1.0);
}

TEST_F(TransposeLadder, VectorisedMovesSixteenBytesPerLane) {
  const simt::Report report = counters_of("vectorised");
  EXPECT_EQ(bytes_moved(report), least_bytes());
  const std::uint64_t vectors = 128 * 64 / 4;
  for (const AccessKind kind : {AccessKind::kGlobalLoad, AccessKind::kGlobalStore,
                                AccessKind::kSharedLoad, AccessKind::kSharedStore}) {
    const simt::Site site = report.total(kind);
    EXPECT_EQ(site.requests, vectors / 32) << simt::name_of(kind);
    EXPECT_EQ(site.wavefronts, site.ideal_wavefronts) << simt::name_of(kind);
  }
}

TEST_F(TransposeLadder, VectorisedTakesRowsThatAreNoMultipleOfFour) {
  for (const Sizes& ragged : {Sizes{66, 130}, Sizes{65, 128}, Sizes{128, 67}, Sizes{3, 5}}) {
    expect_right("vectorised", {.sizes = ragged});
  }
}

}  // namespace transpose_ladder_test
}  // namespace ultra::ladders
