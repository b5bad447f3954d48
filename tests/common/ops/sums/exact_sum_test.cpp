#include "common/ops/sums/exact_sum.hpp"

#include <algorithm>
#include <bit>

#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double exact(std::initializer_list<double> terms) {
  ExactSum sum;
  for (const double term : terms) sum.add(term);
  return sum.value();
}

class ExactSumTest : public test::RandomTest {
 protected:
  /// Whole numbers of up to 53 bits times a power of two: with their sum, which i64 has.
  std::vector<double> whole_numbers(int exponent, std::int64_t& total) {
    std::vector<double> terms(random.between(1, 300));
    for (double& term : terms) {
      const int bits = static_cast<int>(random.between(1, 53));
      const auto number =
          static_cast<std::int64_t>(random.uniform(-1.0, 1.0) * std::ldexp(1.0, bits));
      total += number;
      term = std::ldexp(static_cast<double>(number), exponent);
    }
    return terms;
  }
};

TEST_F(ExactSumTest, IsTheSumOfWholeNumbersWhereverTheirPointIs) {
  for (int i = 0; i < 200 && !HasFailure(); ++i) {
    const int exponent = static_cast<int>(random.between(0, 490)) - 280;
    std::int64_t total = 0;
    ExactSum sum;
    for (const double term : whole_numbers(exponent, total)) sum.add(term);
    const double expected = std::ldexp(static_cast<double>(total), exponent);
    EXPECT_NEAR(sum.value(), expected, std::abs(expected) * 0x1p-52) << "times 2^" << exponent;
  }
}

TEST_F(ExactSumTest, LosesNothingBesideLargerTerms) {
  EXPECT_EQ(exact({1e70, 1.0, -1e70}), 1.0);
  EXPECT_EQ(exact({0x1p-200, 1.0, 0x1p200, -1.0, -0x1p200}), 0x1p-200);
  EXPECT_EQ(exact({-3.0, 1.0}), -2.0);
  EXPECT_EQ(exact({}), 0.0);
  EXPECT_EQ(exact({0x1p-288, 0x1p-288}), 0x1p-287) << "its last bit";
  EXPECT_EQ(exact({0x1.8p-288}), 0x1p-288) << "what is behind that is cut off";
}

TEST_F(ExactSumTest, OfWhatHasNoPlaceIsNoNumber) {
  EXPECT_EQ(exact({0x1.fffffffffffffp287}), 0x1.fffffffffffffp287);
  for (const double term : {0x1p288, -0x1p288, kInfinity, -kInfinity, std::nan("")}) {
    EXPECT_TRUE(std::isnan(exact({1.0, term, 2.0}))) << term;
  }
}

/// The same bits in any order, in any parts, added up as arrays of digits: as an all-reduce does.
TEST_F(ExactSumTest, HasTheSameBitsInAnyOrderAndInAnyParts) {
  for (int i = 0; i < 50 && !HasFailure(); ++i) {
    std::vector<double> terms(random.between(1, 200));
    for (double& term : terms) {
      term = std::ldexp(random.normal(), static_cast<int>(random.between(0, 200)) - 100);
    }
    ExactSum in_order;
    for (const double term : terms) in_order.add(term);
    std::vector<double> digits(ExactSum::kDigits, 0.0);
    std::ranges::sort(terms);
    while (!terms.empty()) {
      ExactSum part;
      for (std::size_t count = random.between(1, terms.size()); count > 0; --count) {
        part.add(terms.back());
        terms.pop_back();
      }
      part.put(digits, Write::kAccumulate);
    }
    const std::vector<double> rounded = rounded_sums(digits, ExactSum::kDigits);
    ASSERT_EQ(rounded.size(), 1U);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(rounded[0]),
              std::bit_cast<std::uint64_t>(in_order.value()));
  }
}

TEST_F(ExactSumTest, TakesOneNumberWhereSumsFollowNoTrees) {
  EXPECT_EQ(digits_of_sums(Device::cpu()), 1U);
  EXPECT_FALSE(sums_by_trees(Device::create(DeviceKind::kEmulated, 0, MatmulLibrary::kOurs)));
  EXPECT_TRUE(sums_by_trees(Device::create(DeviceKind::kCpu, 0, MatmulLibrary::kOurs)));
  EXPECT_EQ(rounded_sums(std::vector{1.5, 2.5}, 1), (std::vector{1.5, 2.5}));
}

}  // namespace
}  // namespace ultra::ops
