// Covers: kernels/plain/fp8_grid.hpp
// fp8 grids on the checked emulator. Every number of the formats is compared with the CPU's functions in
// tests/chapters/10_mixed_precision/fp8, which run on the emulated device too.
#include <cmath>
#include <tuple>

#include "kernels/plain/fp8_grid.hpp"
#include "tests/kernels/plain/support.hpp"

namespace ultra::kernels::plain::test {
namespace {

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

}  // namespace
}  // namespace ultra::kernels::plain::test
