// Factors of products in fp8: codes and scales give the numbers back bit for bit.

#include "kernels/generic/elements/fp8_factor.hpp"

#include <algorithm>
#include <cmath>

#include "tests/kernels/generic/support.hpp"

namespace ultra::kernels::generic::test {
namespace fp8_factor_test {

using simt::bf16;
using simt::fp8_e4m3;
using simt::fp8_e5m2;

constexpr std::size_t kGroup = kFp8Group;

/// The code of the largest number.
template <typename Code>
constexpr std::uint8_t kLargest = std::is_same_v<Code, fp8_e5m2> ? 0x7b : 0x7e;

std::size_t groups_of(std::size_t count) { return (count + kGroup - 1) / kGroup; }

class PackFactor : public PlainTest {
 protected:
  /// Numbers of a format, [rows, depth], times a power of two for each group of as many rows.
  template <typename Code>
  std::vector<float> draw(std::size_t rows, std::size_t depth, std::size_t rows_of_scale) {
    std::vector<float> scales(((rows + rows_of_scale - 1) / rows_of_scale) * groups_of(depth));
    for (float& scale : scales) {
      scale = between(0, 5) == 0 ? 0.0F : std::ldexp(1.0F, between(-40, 40));
    }
    std::vector<float> numbers;
    for (std::size_t i = 0; i < rows * depth; ++i) {
      const auto code = static_cast<std::uint8_t>(between(0, kLargest<Code>) + 128 * between(0, 1));
      const std::size_t tile = i / depth / rows_of_scale * groups_of(depth) + i % depth / kGroup;
      numbers.push_back(static_cast<float>(Code::from_bits(code)) * scales[tile]);
    }
    return numbers;
  }

  template <typename Code>
  void expect_numbers_back(std::size_t rows, std::size_t depth, bool is_turned, bool is_left) {
    const std::size_t rows_of_scale = is_left ? 1 : kGroup;
    const std::size_t rows_of_tile = is_turned ? kGroup : rows_of_scale;
    const std::vector<float> numbers = draw<Code>(rows, depth, rows_of_tile);
    std::vector<bf16> stored;
    for (std::size_t i = 0; i < rows * depth; ++i) {
      stored.emplace_back(numbers[is_turned ? i % rows * depth + i / rows : i]);
    }
    const Checked<bf16> x("x", stored);
    const std::size_t groups = groups_of(depth);
    Checked<Code> codes("codes", rows * groups * kGroup);
    Checked<float> scales("scales", ((rows + rows_of_scale - 1) / rows_of_scale) * groups);
    pack_factor<kChecked>(
        {rows, depth, x.data(), is_turned, is_left, std::is_same_v<Code, fp8_e5m2>}, codes.data(),
        scales.data(), {});
    const std::vector<double> found = values_of(codes);
    const std::vector<float> factors = scales.download();
    std::vector<double> largest(factors.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::size_t row = i / (groups * kGroup);
      const std::size_t place = i % (groups * kGroup);
      const std::size_t tile = row / rows_of_tile * groups + place / kGroup;
      largest[tile] = std::max(largest[tile], std::abs(found[i]));
      const float factor = factors[row / rows_of_scale * groups + place / kGroup];
      const float number = place < depth ? numbers[row * depth + place] : 0.0F;
      ASSERT_EQ(found[i] * static_cast<double>(factor), number) << row << ", " << place;
    }
    const double half = static_cast<float>(Code::from_bits(kLargest<Code>)) / 2;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const std::size_t tile = i / groups * rows_of_scale / rows_of_tile * groups + i % groups;
      int exponent = 0;
      EXPECT_EQ(std::frexp(factors[i], &exponent), 0.5F) << "a power of two";
      EXPECT_TRUE(largest[tile] == 0.0 ? factors[i] == 1.0F : largest[tile] > half)
          << largest[tile] << " times " << factors[i];
    }
  }
};

TEST_F(PackFactor, KeepsTheNumbersOfEachTile) {
  for (int round = 0; round < 3; ++round) {
    const auto any = static_cast<std::size_t>(between(1, 300));
    const auto fours = static_cast<std::size_t>(4 * between(1, 80));
    expect_numbers_back<fp8_e4m3>(any, fours, false, true);
    expect_numbers_back<fp8_e5m2>(any, fours, false, true);
    expect_numbers_back<fp8_e4m3>(any, fours, false, false);
    expect_numbers_back<fp8_e4m3>(fours, any, true, false);
    expect_numbers_back<fp8_e5m2>(fours, any, true, true);
  }
}

TEST_F(PackFactor, KeepsWhatIsNoNumber) {
  const float nan = std::nanf("");
  const Checked<bf16> x("x", std::vector<bf16>{bf16(2.0F), bf16(nan), bf16(-1.0F), bf16(0.0F)});
  Checked<fp8_e4m3> codes("codes", kGroup);
  Checked<float> scales("scales", 1);
  pack_factor<kChecked>({1, 4, x.data(), false, true, false}, codes.data(), scales.data(), {});
  const std::vector<double> found = values_of(codes);
  EXPECT_EQ(scales.download().front(), 0x1p-7F) << "of 2 = 256 / 128";
  EXPECT_TRUE(std::isnan(found[1]));
  EXPECT_EQ(found[2], -128.0);
}

}  // namespace fp8_factor_test
}  // namespace ultra::kernels::generic::test
