// Plain kernels on rows and elements.
// Covers: kernels/generic/elements/combine.hpp
// Covers: kernels/generic/elements/copy.hpp
// Covers: kernels/generic/numbers.cuh
// Covers: kernels/generic/numbers.hpp
// Covers: kernels/generic/rows/weighted_rows.hpp
// Covers: kernels/generic/elements/fp8_grid.hpp

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "kernels/generic/elements/combine.hpp"
#include "kernels/generic/elements/copy.hpp"
#include "kernels/generic/elements/fp8_grid.hpp"
#include "kernels/generic/rows/weighted_rows.hpp"
#include "tests/kernels/generic/support.hpp"

namespace ultra::kernels::generic::test {
namespace rows_test {

class PlainCombine : public PlainTest {
 protected:
  // All ranks' results are one rank's, by a loop in the order of the ranks.
  template <typename T>
  void check_all(Combination op, int ranks) {
    const auto count = static_cast<std::size_t>(between(1, 300));
    std::vector<Checked<T>> buffers;
    std::vector<double> expected;
    for (int rank = 0; rank < ranks; ++rank) {
      buffers.push_back(eighths<T>("rank " + std::to_string(rank), count));
      const std::vector<double> own = values_of(buffers.back());
      for (std::size_t i = 0; i < count; ++i) {
        if (rank == 0) {
          expected.push_back(own[i]);
        } else {
          expected[i] = op == Combination::kMax   ? std::max(expected[i], own[i])
                        : op == Combination::kMin ? std::min(expected[i], own[i])
                                                  : expected[i] + own[i];
        }
      }
    }
    std::vector<void*> into;
    std::vector<const void*> from;
    for (Checked<T>& buffer : buffers) {
      into.push_back(buffer.data());
      from.push_back(buffer.data());
    }
    combine_all<kChecked>(op, number_of<T>(), into, from, count, {});
    for (const Checked<T>& buffer : buffers) {
      const std::vector<double> found = values_of(buffer);
      for (std::size_t i = 0; i < count; ++i) {
        const double wanted = op == Combination::kAverage ? expected[i] / ranks : expected[i];
        ASSERT_EQ(found[i], widened(static_cast<T>(static_cast<float>(wanted))));
      }
    }
  }
};

TEST_F(PlainCombine, AllRanksGetTheResultOfAll) {
  for (const Combination op : {Combination::kSum, Combination::kMax, Combination::kMin}) {
    for (const int ranks : {1, 2, 5, 9}) {
      check_all<float>(op, ranks);
      check_all<double>(op, ranks);
      check_all<simt::half>(op, ranks);
    }
  }
  check_all<simt::bf16>(Combination::kMax, 3);
  check_all<int>(Combination::kSum, 3);
  check_all<float>(Combination::kAverage, 4);
  check_all<simt::bf16>(Combination::kAverage, 2);
}

class PlainCopy : public PlainTest {
 protected:
  // Every second row of a matrix of `rows` x `columns`, transposed: what is where.
  static Layout transposed_rows(std::size_t rows, std::size_t columns) {
    return {.rank = 2, .extents = {columns, rows}, .strides = {1, 2 * columns}};
  }
};

// [seq, heads, head_dim] to [heads, seq, head_dim], as attention's kernels want it, and the bytes of the
// sectors that move: each once, in accesses of 16 bytes where a head's elements fill such.
TEST_F(PlainCopy, HeadsMoveInPiecesWhereTheyHaveThem) {
  constexpr std::size_t kSeq = 64;
  constexpr std::size_t kHeads = 3;
  const auto check = [&](std::size_t head_dim, std::size_t first, bool has_pieces) {
    const std::size_t count = kSeq * kHeads * head_dim;
    const auto from = eighths<simt::bf16>("from", count + first);
    Checked<simt::bf16> to("to", count);
    const Layout there{
        .rank = 3, .extents = {kHeads, kSeq, head_dim}, .strides = {kSeq * head_dim, head_dim, 1}};
    const Layout here{.rank = 3,
                      .extents = {kHeads, kSeq, head_dim},
                      .strides = {head_dim, kHeads * head_dim, 1}};
    simt::Report report;
    copy<kChecked>(target(to), there, {Number::kBf16, from.data() + first}, here,
                   {.report = &report});
    const std::vector<double> given = values_of(from);
    const std::vector<double> found = values_of(to);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t head = i / (kSeq * head_dim);
      const std::size_t token = i / head_dim % kSeq;
      EXPECT_EQ(found[i], given[first + (token * kHeads + head) * head_dim + i % head_dim]);
    }
    for (const simt::Site& site : report.sites) {
      EXPECT_EQ(site.size, has_pieces ? 16U : 2U) << head_dim << " from " << first;
    }
    return 32 * (report.total(simt::AccessKind::kGlobalLoad).sectors +
                 report.total(simt::AccessKind::kGlobalStore).sectors);
  };
  EXPECT_EQ(check(32, 0, true), 2U * 2 * kSeq * kHeads * 32);
  check(8, 0, true);
  check(12, 0, false);
  check(32, 1, false);
}

// 1 + 2^-8 lies between two bf16 numbers; a little above it, f32 cannot tell, and rounding twice would
// give the even one.
TEST_F(PlainCopy, F64IsRoundedOnceToTwoBytes) {
  const std::vector<double> values = {1.0 + 0x1p-8 + 0x1p-40, -1.0 - 0x1p-8 - 0x1p-40, 1.0 + 0x1p-8,
                                      1e300, std::numeric_limits<double>::quiet_NaN()};
  const Checked<double> from("from", values);
  Checked<simt::bf16> to("to", values.size());
  const Layout layout{.rank = 1, .extents = {values.size()}, .strides = {1}};
  copy<kChecked>(target(to), layout, source(from), layout, {});
  const std::vector<double> found = values_of(to);
  EXPECT_EQ(found[0], 1.0 + 0x1p-7);
  EXPECT_EQ(found[1], -1.0 - 0x1p-7);
  EXPECT_EQ(found[2], 1.0);
  EXPECT_EQ(found[3], std::numeric_limits<double>::infinity());
  EXPECT_NE(found[4], found[4]);
}

TEST_F(PlainCopy, FillSetsAViewAndNothingElse) {
  const std::size_t rows = 3;
  const std::size_t columns = 5;
  Checked<int> to("to", std::vector<int>(2 * rows * columns, 1));
  fill<kChecked>({Number::kI32, to.data()}, transposed_rows(rows, columns), -7.0, {});
  const std::vector<int> found = to.download();
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i], i / columns % 2 == 0 ? -7 : 1);
  }
  Checked<double> number("number", 1);
  fill<kChecked>(target(number), {}, 0.1, {});
  EXPECT_EQ(number.download().front(), 0.1);
}

TEST_F(PlainCopy, NoElementsAreNoLaunch) {
  Checked<float> to("to", 1);
  const Layout nothing{.rank = 2, .extents = {0, 5}, .strides = {5, 1}};
  simt::Report report;
  fill<kChecked>(target(to), nothing, 1.0, {.report = &report});
  copy<kChecked>(target(to), nothing, source(to), nothing, {.report = &report});
  EXPECT_TRUE(report.launches.empty());
}

class WeightedRows : public PlainTest {};

constexpr Source kNoWeights{Number::kF32, nullptr};

TEST_F(WeightedRows, AreTakenMultipliedAndAddedUp) {
  const std::size_t features = 37;
  const auto x = eighths<float>("x", 3 * features);
  const Checked<int> list("list", std::vector<int>{2, 0, 2, 1, 0});
  const Checked<float> weights("weights", std::vector<float>{1.0F, 0.5F, 2.0F, -1.0F, 0.25F});
  const RowList rows{5, features, list.data(), source(weights)};
  Checked<float> taken("taken", 5 * features);
  take_rows<kChecked>(rows, target(taken), source(x), {});
  const std::vector<double> numbers = values_of(x);
  const std::vector<double> found = values_of(taken);
  for (std::size_t i = 0; i < features; ++i) {
    ASSERT_EQ(found[i], numbers[2 * features + i]);
    ASSERT_EQ(found[3 * features + i], -numbers[features + i]);
  }

  Checked<float> products("products", 5);
  dot_rows<kChecked>({5, features, list.data(), kNoWeights}, target(products), source(taken),
                     source(x), {});
  double expected = 0;
  for (std::size_t i = 0; i < features; ++i) {
    expected += found[features + i] * numbers[i];
  }
  EXPECT_EQ(values_of(products)[1], expected) << "sums of such products are exact";

  const Checked<int> terms("terms", std::vector<int>{1, 4, 3, -1});
  Checked<float> sums("sums", 2 * features);
  sum_rows<kChecked>({2, features, 2, terms.data(), kNoWeights}, target(sums), source(taken), {});
  for (std::size_t i = 0; i < features; ++i) {
    ASSERT_EQ(values_of(sums)[i], found[features + i] + found[4 * features + i]);
    ASSERT_EQ(values_of(sums)[features + i], found[3 * features + i]);
  }
}

class Fp8Grid : public PlainTest {};

constexpr Fp8Format kE4m3{3, 7, 448.0F};
constexpr Fp8Format kE5m2{2, 15, 57344.0F};

// Rows 3 to 8 and columns 2 to 11 of a matrix of 12 x 13 in tiles of 4 x 5.
constexpr TiledPart kPart{5, 9, 3, 2, 4, 5, 3, 9};

TEST_F(Fp8Grid, LargestMagnitudesAreOfTilesOfTheWhole) {
  std::vector<float> numbers(5 * 9, 1.0F);
  numbers[0] = -7.0F;              // row 3, column 2: tile 0
  numbers[9 + 8] = 5.0F;           // row 4, column 10: tile 5
  numbers[4 * 9 + 3] = 0.5F;       // row 7, column 5
  numbers[2 * 9] = std::nanf("");  // row 5, column 2: passed over
  const Checked<float> x("x", numbers);
  Checked<float> amax("amax", 9);
  Checked<float> of_rows("of_rows", 5 * 3);
  amax_of_tiles<kChecked>(kPart, amax.data(), source(x), of_rows.data(), {});
  EXPECT_EQ(amax.download(), (std::vector<float>{7, 1, 1, 1, 1, 5, 0, 0, 0}));
}

TEST_F(Fp8Grid, ScalesArePowersOfTwo) {
  Checked<float> amax("amax", std::vector<float>{448.0F, 449.0F, 1.0F, 0.0F, INFINITY, 1e-44F});
  power_of_two_scales<kChecked>(amax.data(), 6, kE4m3, 1, {});
  EXPECT_EQ(amax.download(), (std::vector<float>{0.5F, 0.25F, 128.0F, 1.0F, 1.0F, 0x1p126F}));
}

TEST_F(Fp8Grid, ScalesOfAStepComeFromTheStepsBefore) {
  Checked<float> history("history", std::vector<float>{3.0F, 1.0F, 448.0F, 2.0F});
  for (const auto& [own, notes, noted] :
       {std::tuple{5.0F, false, 3.0F}, {2.0F, true, 3.0F}, {5.0F, true, 5.0F}}) {
    Checked<float> scale("scale", std::vector<float>{own});
    scale_from_history<kChecked>(scale.data(), history.data(), 4, kE4m3, 0, notes, {});
    EXPECT_EQ(scale.download().front(), 1.0F) << "of 448, not of its own";
    EXPECT_EQ(history.download(), (std::vector<float>{noted, 1.0F, 448.0F, 2.0F}));
  }
}

TEST_F(Fp8Grid, RoundsToTheNearestAndSaturates) {
  const TiledPart row{1, 6, 0, 0, 1, 6, 1, 1};
  const Checked<double> x(
      "x", std::vector<double>{1.0625, 1.1875, -0x1.4p-9, 1e9, -0.0, 1.0625 + 0x1p-40});
  const Checked<float> scales("scales", std::vector<float>{1.0F});
  Checked<double> out("out", 6);
  round_to_grid<kChecked>(row, target(out), source(x), scales.data(), kE4m3, {});
  EXPECT_EQ(out.download(), (std::vector<double>{1.0, 1.25, -0x1p-9, 448.0, 0.0, 1.125}));
  EXPECT_TRUE(std::signbit(out.download()[4]));
}

TEST_F(Fp8Grid, CodesBringBackTheNumbers) {
  for (const Fp8Format& format : {kE4m3, kE5m2}) {
    const auto x = eighths<float>("x", 5 * 9);
    const Checked<float> scales("scales", std::vector<float>{2, 4, 1, 0.5F, 8, 1, 1, 1, 1});
    Checked<float> rounded("rounded", 5 * 9);
    round_to_grid<kChecked>(kPart, target(rounded), source(x), scales.data(), format, {});
    Checked<int> codes("codes", 5 * 3);
    pack_fp8<kChecked>(kPart, codes.data(), 3, source(rounded), scales.data(), format, {});
    Checked<float> back("back", 5 * 9);
    unpack_fp8<kChecked>(kPart, target(back), codes.data(), 3, scales.data(), format, {});
    EXPECT_EQ(back.download(), rounded.download());
  }
}

}  // namespace rows_test
}  // namespace ultra::kernels::generic::test
