// What each rung of matmul_bf16 changes, in counters.

#include "kernels/ladders/matmul/matmul_bf16/tile_order.cuh"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ladders {
namespace matmul_bf16_ladder_test {

using simt::AccessKind;
using simt::Report;
using simt::Site;

class MatmulBf16Ladder : public test::LadderTest {
 protected:
  MatmulBf16Ladder() : LadderTest("matmul_bf16") {}
};

// The shared loads of one size: 16 for matrices, 4 for words.
Site shared_loads(const Report& report, int size) {
  Site sum;
  for (const Site& site : report.sites) {
    if (site.kind == AccessKind::kSharedLoad && site.size == size) {
      sum.requests += site.requests;
      sum.wavefronts += site.wavefronts;
      sum.ideal_wavefronts += site.ideal_wavefronts;
    }
  }
  return sum;
}

// What is loaded once for BM rows and BN columns of c: by a block, or by a cluster.
struct TiledRung {
  const char* name;
  int rows;
  int columns;
};

TEST_F(MatmulBf16Ladder, EachBlockLoadsItsRowsOnceInWholeSectors) {
  // M K elements of a for each of the N / BN columns of blocks, N K of b for each of the M / BM
  // rows.
  const int rows = 256;
  const int columns = 256;
  const int depth = 64;
  for (const TiledRung& rung :
       {TiledRung{"cuda_cores", 128, 128}, TiledRung{"wmma", 128, 128},
        TiledRung{"mma_padded", 128, 128}, TiledRung{"ldmatrix_swizzled", 128, 128},
        TiledRung{"multistage", 128, 128}, TiledRung{"wide_warp_tile", 128, 256},
        TiledRung{"wgmma_tma", 64, 64}, TiledRung{"wgmma_128", 128, 128},
        TiledRung{"producer_consumer", 128, 128}, TiledRung{"two_consumers", 128, 256},
        TiledRung{"persistent", 128, 256}, TiledRung{"cluster_multicast", 256, 256}}) {
    const Site load = counters_of(rung.name, {rows, columns, depth}).total(AccessKind::kGlobalLoad);
    const auto elements = static_cast<std::uint64_t>(rows * depth * columns / rung.columns +
                                                     columns * depth * rows / rung.rows);
    EXPECT_EQ(load.bytes, elements * 2) << rung.name;
    EXPECT_EQ(load.sectors, elements * 2 / 32) << rung.name;
  }
}

TEST_F(MatmulBf16Ladder, EveryElementOfCIsStoredOnce) {
  for (const RungInfo& rung : ladder().rungs()) {
    const Site store = counters_of(rung.name, {40, 24, 16}).total(AccessKind::kGlobalStore);
    EXPECT_EQ(store.bytes, 40U * 24U * 2U) << rung.name;
  }
}

TEST_F(MatmulBf16Ladder, TilesOfUnpaddedRowsMeetInTheBanks) {
  // The emulator's lanes load 16 bytes each, two lanes a row: the 8 lanes of one pass want the same
  // 8 banks of 4 rows that begin in bank 0.
  const Site load = shared_loads(counters_of("wmma", {128, 128, 64}), 16);
  EXPECT_EQ(load.wavefronts, 4 * load.ideal_wavefronts);
}

TEST_F(MatmulBf16Ladder, PaddedRowsTakeOneWavefrontPerWord) {
  // 8 warps, 4 steps of 16: 4 tiles of a with 4 words each, 4 tiles of b with 2.
  const Site load = shared_loads(counters_of("mma_padded", {128, 128, 64}), 4);
  EXPECT_EQ(load.requests, 8U * 4U * (4 * 4 + 4 * 2));
  EXPECT_EQ(load.wavefronts, load.requests);
}

TEST_F(MatmulBf16Ladder, SwizzledRowsTakeOneWavefrontPerMatrix) {
  // 8 warps, 4 steps: 4 loads of four matrices for a, 2 for b.
  const Report report = counters_of("ldmatrix_swizzled", {128, 128, 64});
  const Site load = shared_loads(report, 16);
  EXPECT_EQ(load.requests, 8U * 4U * (4 + 2));
  EXPECT_EQ(load.wavefronts, 4 * load.requests);
  // Stores of whole rows: 4 wavefronts for 512 bytes.
  EXPECT_EQ(report.total(AccessKind::kSharedStore).wavefronts_per_request(), 4.0);
}

TEST_F(MatmulBf16Ladder, CopiesInTheBackgroundMoveTheSame) {
  const Sizes sizes{128, 128, 320};  // five steps: the ring of three goes round
  const Report before = counters_of("ldmatrix_swizzled", sizes);
  const Report after = counters_of("multistage", sizes);
  for (const AccessKind kind : {AccessKind::kGlobalLoad, AccessKind::kSharedStore,
                                AccessKind::kSharedLoad, AccessKind::kGlobalStore}) {
    EXPECT_EQ(after.total(kind).bytes, before.total(kind).bytes) << simt::name_of(kind);
    EXPECT_EQ(after.total(kind).wavefronts, before.total(kind).wavefronts) << simt::name_of(kind);
  }
}

TEST_F(MatmulBf16Ladder, WideWarpTilesReadLessPerProduct) {
  // Per step of a warp, 4 + 4 loads for 4 x 8 products, where 64 x 32 needs 4 + 2 for 4 x 4.
  const Sizes sizes{128, 256, 320};
  const Site narrow = shared_loads(counters_of("multistage", sizes), 16);
  const Site wide = shared_loads(counters_of("wide_warp_tile", sizes), 16);
  EXPECT_EQ(wide.requests, 8U * 20U * (4 + 4));
  EXPECT_EQ(narrow.requests, 2 * 8U * 20U * (4 + 2));
  EXPECT_EQ(wide.wavefronts, 4 * wide.requests);
}

TEST_F(MatmulBf16Ladder, RaggedEdgesOfSeveralBlocks) {
  for (const char* const rung : {"multistage", "wide_warp_tile"}) {
    for (const Sizes& sizes : {Sizes{130, 264, 200}, Sizes{1, 1, 8}, Sizes{257, 3, 72}}) {
      for (const simt::Executor executor : {simt::Executor::kChecked, simt::Executor::kFast}) {
        expect_right(rung, {.sizes = sizes, .seed = 7, .executor = executor});
      }
    }
  }
}

TEST_F(MatmulBf16Ladder, RefusesWhatItsCopiesCannotDo) {
  EXPECT_EQ(refusal_of("ldmatrix_swizzled", {1, 1, 97}), "");
  for (const char* const rung : {"multistage", "wide_warp_tile"}) {
    EXPECT_NE(refusal_of(rung, {1, 1, 97}).find("multiple of 8"), std::string::npos);
    EXPECT_EQ(refusal_of(rung, {1, 1, 96}), "");
  }
}

TEST_F(MatmulBf16Ladder, HopperGoesThroughSeveralTilesWithRaggedEdges) {
  // Of 513 x 520, the blocks that stay have several tiles each, and their rings go round and round.
  for (const RungInfo& rung : ladder().rungs()) {
    if (rung.needs == Needs::kHopper) {
      for (const Sizes& sizes : {Sizes{1, 8, 8}, Sizes{130, 264, 200}, Sizes{513, 520, 72}}) {
        for (const simt::Executor executor : {simt::Executor::kChecked, simt::Executor::kFast}) {
          expect_right(rung.name, {.sizes = sizes, .seed = 7, .executor = executor});
        }
      }
    }
  }
}

TEST_F(MatmulBf16Ladder, HopperNeedsRowsOfSixteenBytes) {
  for (const RungInfo& rung : ladder().rungs()) {
    if (rung.needs == Needs::kHopper) {
      EXPECT_EQ(refusal_of(rung.name, {64, 64, 64}), "") << rung.name;
      for (const Sizes& sizes : {Sizes{64, 64, 12}, Sizes{64, 12, 64}}) {
        EXPECT_NE(refusal_of(rung.name, sizes).find("multiples of 8"), std::string::npos);
      }
    }
  }
}

TEST(TileOrder, GoesThroughEachTileOnceAndThroughBandsInTurn) {
  for (const auto& [rows, columns, band] :
       {std::tuple{1, 1, 8}, {8, 5, 8}, {19, 7, 8}, {3, 11, 16}, {64, 32, 16}}) {
    std::vector<int> visits(static_cast<std::size_t>(rows * columns), 0);
    int band_before = 0;
    for (int tile = 0; tile < rows * columns; ++tile) {
      const auto [row, column] = kernels::matmul_bf16::tile_at(tile, rows, columns, band);
      ASSERT_TRUE(row >= 0 && row < rows && column >= 0 && column < columns);
      ++visits[static_cast<std::size_t>(row * columns + column)];
      EXPECT_GE(row / band, band_before);
      band_before = row / band;
    }
    EXPECT_EQ(std::ranges::count(visits, 1), rows * columns);
  }
  // The first 128 tiles of an H100's 132: 16 rows of tiles and 8 columns.
  const auto [row, column] = kernels::matmul_bf16::tile_at(127, 64, 32, 16);
  EXPECT_EQ(row, 15);
  EXPECT_EQ(column, 7);
}

}  // namespace matmul_bf16_ladder_test
}  // namespace ultra::ladders
