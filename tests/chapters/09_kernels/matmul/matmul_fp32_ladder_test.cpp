// What each rung of matmul_fp32 changes, in counters. Covers:
// chapters/09_kernels/matmul/matmul_fp32_ladder.cpp

#include <ostream>

#include "tests/chapters/09_kernels/ladder_fixture.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ladders {
namespace matmul_fp32_ladder_test {

using simt::AccessKind;

// Sizes of whole blocks, so that every warp is full.
class MatmulFp32Ladder : public test::LadderTest {
 protected:
  MatmulFp32Ladder() : LadderTest("matmul_fp32", {64, 64, 64}) {}
};

TEST_F(MatmulFp32Ladder, NaiveTouchesASectorPerLane) {
  // Loads: 32 sectors for a and 1 for b per pair of requests.
  expect_sectors_per_request(counters_of("naive"), (32.0 + 1.0) / 2.0, 32.0);
}

TEST_F(MatmulFp32Ladder, CoalescedTouchesFour) {
  expect_sectors_per_request(counters_of("coalesced"), (1.0 + 4.0) / 2.0, 4.0);
}

// A rung that keeps tiles in shared memory, and what follows from its shape.
struct TiledRung {
  const char* name;
  std::uint64_t tile_rows;     // BM
  std::uint64_t tile_columns;  // BN
  // From shared memory, for each k: requests and wavefronts of a warp, and the multiply-adds of a
  // lane.
  std::uint64_t requests;
  std::uint64_t wavefronts;
  std::uint64_t multiply_adds;
  // Tiles that are copied behind the last k, and their depth.
  std::uint64_t tiles_of_zeros = 0;
  std::uint64_t tile_depth = 8;
  // Loads from shared memory behind the last k.
  std::uint64_t sides_in_advance = 0;
  // Sectors of a request that stores c: of 4 bytes or of 16.
  double store_sectors = 4.0;
};

void PrintTo(const TiledRung& rung, std::ostream* out) { *out << rung.name; }

// A float4 takes a warp four wavefronts, a float one.
constexpr TiledRung kTiledRungs[] = {
    {.name = "tiled",
     .tile_rows = 32,
     .tile_columns = 32,
     .requests = 1 + 1,
     .wavefronts = 1 + 1,
     .multiply_adds = 1},
    {.name = "coarsened",
     .tile_rows = 64,
     .tile_columns = 64,
     .requests = 8 + 1,
     .wavefronts = 8 + 1,
     .multiply_adds = 8},
    {.name = "register_tile",
     .tile_rows = 128,
     .tile_columns = 128,
     .requests = 8 + 8,
     .wavefronts = 8 + 8,
     .multiply_adds = 64},
    {.name = "vectorised",
     .tile_rows = 128,
     .tile_columns = 128,
     .requests = 2 + 2,
     .wavefronts = 4 * (2 + 2),
     .multiply_adds = 64,
     .store_sectors = 16.0},
    {.name = "warp_tile",
     .tile_rows = 128,
     .tile_columns = 128,
     .requests = 4 + 2,
     .wavefronts = 4 * (4 + 2),
     .multiply_adds = 128,
     .store_sectors = 16.0},
    {.name = "pipelined",
     .tile_rows = 128,
     .tile_columns = 128,
     .requests = 4 + 2,
     .wavefronts = 4 * (4 + 2),
     .multiply_adds = 128,
     .tiles_of_zeros = 4 - 1,
     .store_sectors = 16.0},
    {.name = "large_tile",
     .tile_rows = 128,
     .tile_columns = 256,
     .requests = 4 + 2,
     .wavefronts = 4 * (4 + 2),
     .multiply_adds = 128,
     .tiles_of_zeros = 3 - 1,
     .sides_in_advance = 1,
     .store_sectors = 16.0},
};

class MatmulFp32Tiles : public MatmulFp32Ladder, public ::testing::WithParamInterface<TiledRung> {
 protected:
  static constexpr std::uint64_t kRows = 128;
  static constexpr std::uint64_t kColumns = 256;
  static constexpr std::uint64_t kDepth = 32;
  static constexpr std::uint64_t kProducts = kRows * kColumns * kDepth;

  // Elements of a and b that the blocks load: a once per column of blocks, b once per row of them.
  static std::uint64_t loaded() {
    return kProducts / GetParam().tile_columns + kProducts / GetParam().tile_rows;
  }

  simt::Report report_ = counters_of(GetParam().name, {kRows, kColumns, kDepth});
};

TEST_P(MatmulFp32Tiles, LoadEachElementOncePerBlock) {
  const simt::Site loads = report_.total(AccessKind::kGlobalLoad);
  EXPECT_EQ(loads.bytes, loaded() * 4);
  EXPECT_EQ(loads.sectors, loads.bytes / 32);  // every byte of a sector is used
}

TEST_P(MatmulFp32Tiles, StoreWholeSectors) {
  const simt::Site stores = report_.total(AccessKind::kGlobalStore);
  EXPECT_EQ(stores.bytes, kRows * kColumns * 4);
  EXPECT_EQ(stores.sectors_per_request(), GetParam().store_sectors);
}

TEST_P(MatmulFp32Tiles, ReadFromSharedMemoryWhatTheirShapeSays) {
  const simt::Site loads = report_.total(AccessKind::kSharedLoad);
  // Of all warps; each k is a step.
  const std::uint64_t steps =
      kProducts / 32 / GetParam().multiply_adds / kDepth * (kDepth + GetParam().sides_in_advance);
  EXPECT_EQ(loads.requests, steps * GetParam().requests);
  EXPECT_EQ(loads.wavefronts, steps * GetParam().wavefronts);
  EXPECT_EQ(loads.wavefronts, loads.ideal_wavefronts);
}

TEST_P(MatmulFp32Tiles, WriteEachElementToSharedMemoryOnceWithoutConflicts) {
  const simt::Site stores = report_.total(AccessKind::kSharedStore);
  const std::uint64_t zeros = loaded() / kDepth * GetParam().tile_depth * GetParam().tiles_of_zeros;
  EXPECT_EQ(stores.bytes, (loaded() + zeros) * 4);
  EXPECT_EQ(stores.wavefronts, stores.bytes / 128);
}

INSTANTIATE_TEST_SUITE_P(Rungs, MatmulFp32Tiles, ::testing::ValuesIn(kTiledRungs),
                         [](const auto& rung) { return std::string(rung.param.name); });

TEST_F(MatmulFp32Ladder, TilesOf32Read16384SectorsOf128Cubed) {
  const simt::Report report = counters_of("tiled", {128, 128, 128});
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors, 16384U);
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

// More blocks than one in both directions, of the largest tiles, too; edges inside a float4 and
// between two; fewer tiles along the depth than are under way at a time, and more.
TEST_F(MatmulFp32Ladder, LargeTilesHaveRaggedEdges) {
  for (const char* name : {"register_tile", "vectorised", "warp_tile", "pipelined", "large_tile"}) {
    for (const Sizes& sizes : {Sizes{130, 259, 17}, Sizes{132, 260, 20}, Sizes{1, 4, 4},
                               Sizes{3, 1, 57}, Sizes{4, 8, 92}, Sizes{129, 2, 1}}) {
      for (const simt::Executor executor : {simt::Executor::kChecked, simt::Executor::kFast}) {
        expect_right(name, {.sizes = sizes, .executor = executor});
      }
    }
  }
}

TEST_F(MatmulFp32Ladder, RefusesMatricesThatAnIntCannotCount) {
  for (const RungInfo& rung : ladder().rungs()) {
    EXPECT_EQ(ladder().refusal(rung.number, {46340, 46340, 1}, simt::Executor::kFast), "");
    EXPECT_THAT(ladder().refusal(rung.number, {46341, 46341, 1}, simt::Executor::kFast),
                ::testing::HasSubstr("a matrix has 2147488281 elements"));
  }
}

}  // namespace matmul_fp32_ladder_test
}  // namespace ultra::ladders
