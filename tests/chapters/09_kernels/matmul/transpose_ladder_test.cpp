// What each rung of transpose changes, in counters.

#include <gtest/gtest.h>

#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class TransposeLadder : public ::testing::Test {
 protected:
  // Sizes of whole tiles, so that every warp is full.
  simt::Report counters_of(const char* rung) {
    return test::counted(*ladder, test::find_rung(*ladder, rung), sizes);
  }

  // Bytes of the sectors that loads and stores touch.
  static double bytes_moved(const simt::Report& report) {
    return 32.0 * static_cast<double>(report.total(AccessKind::kGlobalLoad).sectors +
                                      report.total(AccessKind::kGlobalStore).sectors);
  }

  std::unique_ptr<Ladder> ladder = test::find_ladder("transpose");
  Sizes sizes = {128, 64};
  double least_bytes = ladder->cost(sizes).least_bytes;
};

TEST_F(TransposeLadder, NaiveStoresASectorPerLane) {
  const simt::Report report = counters_of("naive");
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors_per_request(), 4.0);
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).sectors_per_request(), 32.0);
  EXPECT_EQ(bytes_moved(report), (1.0 + 8.0) / 2.0 * least_bytes);
}

TEST_F(TransposeLadder, TiledMovesTheLeastAndConflictsInSharedMemory) {
  const simt::Report report = counters_of("tiled");
  EXPECT_EQ(bytes_moved(report), least_bytes);
  EXPECT_EQ(report.total(AccessKind::kSharedStore).wavefronts_per_request(), 1.0);
  EXPECT_EQ(report.total(AccessKind::kSharedLoad).wavefronts_per_request(), 32.0);
}

TEST_F(TransposeLadder, PaddedHasNoConflicts) {
  const simt::Report report = counters_of("padded");
  EXPECT_EQ(bytes_moved(report), least_bytes);
  EXPECT_EQ(report.total(AccessKind::kSharedStore).wavefronts_per_request(), 1.0);
  EXPECT_EQ(report.total(AccessKind::kSharedLoad).wavefronts_per_request(), 1.0);
}

TEST_F(TransposeLadder, VectorisedMovesSixteenBytesPerLane) {
  const simt::Report report = counters_of("vectorised");
  EXPECT_EQ(bytes_moved(report), least_bytes);
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
    sizes = ragged;
    counters_of("vectorised");
  }
}

}  // namespace
}  // namespace ultra::ladders
