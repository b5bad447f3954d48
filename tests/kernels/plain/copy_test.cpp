// Covers: kernels/plain/numbers.cuh
// Covers: kernels/plain/numbers.hpp
#include "kernels/plain/copy.hpp"

#include <limits>

#include "tests/kernels/plain/support.hpp"

namespace ultra::kernels::plain::test {
namespace {

class PlainCopy : public PlainTest {
 protected:
  // Every second row of a matrix of `rows` x `columns`, transposed: what is where.
  static Layout transposed_rows(std::size_t rows, std::size_t columns) {
    return {.rank = 2, .extents = {columns, rows}, .strides = {1, 2 * columns}};
  }

  static Layout contiguous(std::size_t rows, std::size_t columns) {
    return {.rank = 2, .extents = {rows, columns}, .strides = {columns, 1}};
  }
};

TEST_F(PlainCopy, FollowsTheStridesOfBothSides) {
  const auto rows = static_cast<std::size_t>(between(1, 9));
  const auto columns = static_cast<std::size_t>(between(1, 70));
  const auto from = eighths<float>("from", 2 * rows * columns);
  Checked<float> to("to", rows * columns);
  copy<kChecked>(target(to), contiguous(columns, rows), source(from),
                 transposed_rows(rows, columns), {});
  const std::vector<double> given = values_of(from);
  const std::vector<double> found = values_of(to);
  for (std::size_t i = 0; i < columns; ++i) {
    for (std::size_t j = 0; j < rows; ++j) {
      ASSERT_EQ(found[i * rows + j], given[2 * j * columns + i]);
    }
  }
}

template <typename To, typename From>
void expect_converted(const Checked<From>& from) {
  Checked<To> to("to", from.size());
  const Layout layout{.rank = 1, .extents = {from.size()}, .strides = {1}};
  copy<kChecked>(target(to), layout, source(from), layout, {});
  EXPECT_EQ(values_of(to), values_of(from));
}

TEST_F(PlainCopy, NumbersThatBothTypesHoldStay) {
  const auto wide = eighths<double>("wide", 300);
  const auto half = eighths<simt::half>("half", 300);
  expect_converted<float>(wide);
  expect_converted<simt::bf16>(wide);
  expect_converted<simt::half>(wide);
  expect_converted<double>(half);
  expect_converted<simt::bf16>(half);
  expect_converted<simt::half>(half);
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

}  // namespace
}  // namespace ultra::kernels::plain::test
