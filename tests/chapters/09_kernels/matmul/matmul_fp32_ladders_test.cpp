// What rungs of matmul_fp32 and of transpose change, in counters.

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders::matmul_fp32_ladder_test {

using simt::AccessKind;

// Sizes of whole blocks, so that every warp is full.
using MatmulFp32Ladder = test::LadderOf<"matmul_fp32", 64, 64, 64>;

// A rung that keeps tiles in shared memory, and what follows from its shape.
struct TiledRung {
  const char* name;
  std::uint64_t tile_columns;      // BN; of 128 rows
  std::uint64_t requests;          // from shared memory, of a warp for each k; a float4 takes it
  std::uint64_t wavefronts;        // four wavefronts, a float one
  std::uint64_t multiply_adds;     // of a lane for each k
  std::uint64_t tiles_of_zeros;    // that are copied behind the last k, each of 8 k
  std::uint64_t sides_in_advance;  // loaded from shared memory behind the last k
  double store_sectors;            // of a request that stores c: of 4 bytes or of 16
};

TEST_F(MatmulFp32Ladder, TilesMoveWhatTheirShapeSays) {
  constexpr std::uint64_t kRows = 128, kColumns = 256, kDepth = 32;
  constexpr std::uint64_t kProducts = kRows * kColumns * kDepth;
  for (const TiledRung& rung :
       {TiledRung{"register_tile", 128, 8 + 8, 8 + 8, 64, 0, 0, 4.0},
        TiledRung{"vectorised", 128, 2 + 2, 4 * (2 + 2), 64, 0, 0, 16.0},
        TiledRung{"warp_tile", 128, 4 + 2, 4 * (4 + 2), 128, 0, 0, 16.0},
        TiledRung{"pipelined", 128, 4 + 2, 4 * (4 + 2), 128, 3, 0, 16.0},
        TiledRung{"large_tile", 256, 4 + 2, 4 * (4 + 2), 128, 2, 1, 16.0}}) {
    SCOPED_TRACE(rung.name);
    const simt::Report report = counters_of(rung.name, {kRows, kColumns, kDepth});
    // Elements of a and b that the blocks load: a once per column of blocks, b once per row of them.
    const std::uint64_t loaded = kProducts / rung.tile_columns + kProducts / 128;
    const simt::Site loads = report.total(AccessKind::kGlobalLoad);
    EXPECT_EQ(loads.bytes, loaded * 4);
    EXPECT_EQ(loads.sectors, loads.bytes / 32) << "every byte of a sector is used";
    const simt::Site stores = report.total(AccessKind::kGlobalStore);
    EXPECT_EQ(stores.bytes, kRows * kColumns * 4);
    EXPECT_EQ(stores.sectors_per_request(), rung.store_sectors);
    // Of all warps; each k is a step.
    const std::uint64_t steps =
        kProducts / 32 / rung.multiply_adds / kDepth * (kDepth + rung.sides_in_advance);
    const simt::Site reads = report.total(AccessKind::kSharedLoad);
    EXPECT_EQ(reads.requests, steps * rung.requests);
    EXPECT_EQ(reads.wavefronts, steps * rung.wavefronts);
    EXPECT_EQ(reads.wavefronts, reads.ideal_wavefronts);
    const simt::Site writes = report.total(AccessKind::kSharedStore);
    EXPECT_EQ(writes.bytes, (loaded + loaded / kDepth * 8 * rung.tiles_of_zeros) * 4);
    EXPECT_EQ(writes.wavefronts, writes.bytes / 128) << "without conflicts";
  }
}

// The reason for the 4 floats behind each row of the transposed tile: 128 x 8 of them go there in 8
// warps x 4 stores without a conflict.
TEST_F(MatmulFp32Ladder, VectorisedTransposesWithoutConflicts) {
  const simt::Report report = counters_of("vectorised", {128, 128, 8});
  std::uint64_t scalar_stores = 0;
  for (const simt::Site& site : report.sites) {
    if (site.kind == AccessKind::kSharedStore && site.size == 4) {
      scalar_stores += site.requests;
      EXPECT_EQ(site.wavefronts, site.requests) << "line " << site.line;
    }
  }
  EXPECT_EQ(scalar_stores, 8U * 4);
}

// Rows that begin anywhere are loaded one by one, by lanes that are 16 bytes apart.
TEST_F(MatmulFp32Ladder, VectorAccessesNeedAlignedRows) {
  const auto bytes_per_lane = [this](const char* rung, int columns, int depth) {
    std::vector<int> sizes;
    for (const simt::Site& site : counters_of(rung, {128, columns, depth}).sites) {
      if (site.kind == AccessKind::kGlobalLoad) {
        sizes.push_back(site.size);
      }
    }
    return sizes;
  };
  EXPECT_THAT(bytes_per_lane("vectorised", 128, 8), ::testing::Each(16));
  EXPECT_THAT(bytes_per_lane("vectorised", 128, 9), ::testing::Each(4));
  EXPECT_THAT(bytes_per_lane("warp_tile", 128, 16), ::testing::Each(16));
  EXPECT_THAT(bytes_per_lane("warp_tile", 127, 16), ::testing::Each(4));
  // Here a comes in 4 bytes in any case, so that its rows may begin anywhere.
  EXPECT_THAT(bytes_per_lane("large_tile", 128, 9), ::testing::UnorderedElementsAre(4, 16));
  EXPECT_THAT(bytes_per_lane("large_tile", 127, 8), ::testing::Each(4));
}

}  // namespace ultra::ladders::matmul_fp32_ladder_test

// What each rung of transpose changes, in counters.
namespace ultra::ladders::transpose_ladder_test {

using simt::AccessKind;

// Sizes of whole tiles, so that every warp is full.
using TransposeLadder = test::LadderOf<"transpose", 128, 64>;

TEST_F(TransposeLadder, NaiveStoresASectorPerLane) {
  const simt::Report report = counters_of("naive");
  expect_sectors_per_request(report, 4.0, 32.0);
  EXPECT_EQ(bytes_moved(report), (1.0 + 8.0) / 2.0 * least_bytes());
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

}  // namespace ultra::ladders::transpose_ladder_test
