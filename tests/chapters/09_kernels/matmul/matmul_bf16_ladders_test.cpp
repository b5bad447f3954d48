// What rungs of products on tensor cores change, in counters.

#include <cmath>

#include "kernels/ladders/matmul/matmul_bf16/tile_order.cuh"
#include "kernels/ladders/matmul/matmul_fp8/matmul_fp8.hpp"
#include "kernels/ladders/matmul/matmul_turned/matmul_turned.hpp"
#include "kernels/ladders/matmul/split_k/split_k.hpp"
#include "kernels/simt/buffer.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"
#include "tests/support/toolbox.hpp"

// What each rung of matmul_bf16 changes, in counters.
namespace ultra::ladders::matmul_bf16_ladder_test {

using simt::AccessKind;
using simt::Report;
using simt::Site;

using MatmulBf16Ladder = test::LadderOf<"matmul_bf16">;

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

}  // namespace ultra::ladders::matmul_bf16_ladder_test

// What the rungs of matmul_fp8 read, in counters.
namespace ultra::ladders::matmul_fp8_ladder_test {

using simt::AccessKind;

using MatmulFp8Ladder = test::LadderOf<"matmul_fp8", 128, 256, 256>;

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

// Boxes bring each byte of the factors once for each tile; what threads load besides is scales.
TEST_F(MatmulFp8Ladder, OnHopperTheCopyEngineBringsTheElements) {
  const simt::Report report = counters_of("wgmma");
  std::uint64_t scales = 0;
  std::uint64_t elements = 0;
  for (const simt::Site& site : report.sites) {
    if (site.kind != AccessKind::kGlobalLoad) continue;
    (site.size == 4 ? scales : elements) += site.bytes;
  }
  EXPECT_EQ(elements, 2U * (128 + 128) * 256);
  // In each of two tiles, two groups: 256 threads with two rows and a column of scales.
  EXPECT_EQ(scales, 2U * 2 * 256 * 3 * sizeof(float));
  EXPECT_EQ(report.total(AccessKind::kSharedLoad).wavefronts, 0U);
}

class MatmulFp8OfGradients : public test::RandomTest {
 protected:
  template <typename T>
  using Checked = simt::Buffer<T, simt::Executor::kChecked>;

  /// Whole numbers up to this size.
  template <typename T>
  std::vector<T> whole(std::size_t count, std::size_t largest) {
    std::vector<T> values;
    for (std::size_t i = 0; i < count; ++i) {
      values.emplace_back(static_cast<float>(random.between(0, 2 * largest)) -
                          static_cast<float>(largest));
    }
    return values;
  }

  std::vector<float> powers(std::size_t count) {
    std::vector<float> values;
    for (std::size_t i = 0; i < count; ++i) {
      values.push_back(std::ldexp(1.0F, static_cast<int>(random.between(0, 4)) - 2));
    }
    return values;
  }
};

// Sums of such numbers are exact, so that every order gives the same.
TEST_F(MatmulFp8OfGradients, TheLeftFactorIsOfE5m2AndFloatsAreAddedTo) {
  using simt::fp8_e4m3;
  using simt::fp8_e5m2;
  const std::size_t rows = random.between(1, 200);
  const std::size_t columns = 2 * random.between(1, 100);
  const std::size_t groups = random.between(1, 3);
  const std::size_t depth = 128 * groups;
  const std::vector<fp8_e5m2> a = whole<fp8_e5m2>(rows * depth, 4);
  const std::vector<fp8_e4m3> b = whole<fp8_e4m3>(columns * depth, 8);
  const std::vector<float> a_scales = powers(rows * groups);
  const std::vector<float> b_scales = powers((columns + 127) / 128 * groups);
  const Checked<fp8_e5m2> a_there("a", a);
  const Checked<fp8_e4m3> b_there("b", b);
  const Checked<float> a_scales_there("a_scales", a_scales);
  const Checked<float> b_scales_there("b_scales", b_scales);
  const std::vector<float> before = whole<float>(rows * columns, 100);
  for (const bool adds : {false, true}) {
    Checked<float> sums("sums", rows * columns);
    if (adds) sums.upload(before);
    kernels::matmul_fp8::wgmma_of_gradients<simt::Executor::kChecked>(
        {.rows = static_cast<int>(rows),
         .columns = static_cast<int>(columns),
         .depth = static_cast<int>(depth),
         .a = reinterpret_cast<const fp8_e4m3*>(a_there.data()),
         .a_scales = a_scales_there.data(),
         .b = b_there.data(),
         .b_scales = b_scales_there.data(),
         .c = nullptr,
         .sums = sums.data(),
         .adds = adds},
        {});
    const std::vector<float> found = sums.download();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::size_t row = i / columns;
      const std::size_t column = i % columns;
      float expected = adds ? before[i] : 0.0F;
      for (std::size_t k = 0; k < depth; ++k) {
        expected += static_cast<float>(a[row * depth + k]) *
                    static_cast<float>(b[column * depth + k]) * a_scales[row * groups + k / 128] *
                    b_scales[column / 128 * groups + k / 128];
      }
      ASSERT_EQ(found[i], expected)
          << row << ", " << column << " of " << rows << " x " << columns << " x " << depth;
    }
  }
}

}  // namespace ultra::ladders::matmul_fp8_ladder_test

// What the rungs of matmul_turned move, in counters; and every layout and result of theirs.
namespace ultra::ladders::matmul_turned_ladder_test {

using simt::AccessKind;

using MatmulTurnedLadder = test::LadderOf<"matmul_turned", 128, 256, 192>;

// A cluster's two blocks share b: one tile of 256 x 256 brings 256 rows of a, and 256 of b once.
TEST_F(MatmulTurnedLadder, OnHopperTheyAreReadAsTheyLieToo) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const simt::Report report = counters_of("wgmma_turns", {256, 256, 192}, seed);
    EXPECT_EQ(report.total(AccessKind::kGlobalLoad).bytes, 2U * (256 + 256) * 192 + 4U * 256 * 256);
    EXPECT_EQ(bytes_moved(report), 2.0 * (256 + 256) * 192 + 2 * 4.0 * 256 * 256);
  }
}

TEST_F(MatmulTurnedLadder, ThePairOfLayoutsThatNobodyHasIsNamed) {
  using kernels::matmul_bf16::Lies;
  kernels::matmul_turned::Problem problem{};
  problem.a_lies = Lies::kAlongRows;
  problem.b_lies = Lies::kAlongDepth;
  EXPECT_THAT(test::message_of<simt::SimtError>([&] {
                kernels::matmul_turned::ldmatrix_turns<simt::Executor::kFast>(problem, {});
              }),
              testing::HasSubstr("exchange the factors"));
}

}  // namespace ultra::ladders::matmul_turned_ladder_test

// What the rungs of split_k change, in launches and counters.
namespace ultra::ladders::split_k_ladder_test {

using simt::AccessKind;

// Six tiles of eight steps.
constexpr int kTiles = 6;
constexpr std::uint64_t kTileBytes = 4U * 128 * 128;

class SplitKLadder : public test::LadderTest {
 protected:
  SplitKLadder() : LadderTest("split_k", {256, 384, 512, 16}) {}

  static std::uint64_t bytes_kept(const simt::Report& report) {
    return report.total(AccessKind::kGlobalStore).bytes - 2U * 256 * 384;
  }
};

// 48 steps for 16 blocks: 3 each. No block has all 8 steps of a tile; cuts at 8, 16, ... lie inside
// a block's three where 3 does not divide them, at 8, 16, 32 and 40: those blocks keep two pieces.
TEST_F(SplitKLadder, StreamGivesEachBlockAsManySteps) {
  const simt::Report report = counters_of("stream");
  EXPECT_EQ(report.launches[0].grid.x, 16U);
  EXPECT_EQ(bytes_kept(report), (16 + 4) * kTileBytes);
}

// As many blocks as tiles: nothing is cut, and nothing kept.
TEST_F(SplitKLadder, StreamKeepsNothingOfWholeTiles) {
  EXPECT_EQ(bytes_kept(counters_of("stream", {256, 384, 512, kTiles})), 0U);
}

TEST(SplitK, PartsAreAsManyAsBlocksAllowAndHaveAStepEach) {
  using kernels::split_k::count_parts;
  EXPECT_EQ(count_parts(64, 512, 264), 4);
  EXPECT_EQ(count_parts(100, 512, 264), 2);
  EXPECT_EQ(count_parts(300, 512, 264), 1);
  EXPECT_EQ(count_parts(1, 3, 264), 3);
  EXPECT_EQ(count_parts(1, 5, 4), 3) << "parts of two steps, the last one of one";
}

}  // namespace ultra::ladders::split_k_ladder_test
