// Covers: kernels/plain/weighted_rows.hpp
// Rows by lists, on the checked emulator; over many shapes and types see tests/common/ops.
#include "kernels/plain/weighted_rows.hpp"
#include "tests/kernels/plain/support.hpp"

namespace ultra::kernels::plain::test {
namespace {

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

}  // namespace
}  // namespace ultra::kernels::plain::test
