#include "common/optim/newton_schulz.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/common/optim/orthogonal.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"

namespace ultra::optim {
namespace {

using namespace test;

/// What becomes of a singular value of the divided matrix: the polynomial, again and again.
double moved(double s) {
  for (int step = 0; step < 5; ++step) {
    s = 3.4445 * s - 4.7750 * s * s * s + 2.0315 * s * s * s * s * s;
  }
  return s;
}

class NewtonSchulzTest : public ultra::test::RandomTest {
 protected:
  /// Values of which the largest are a thousand times the smallest.
  std::vector<double> draw_values(std::size_t count) {
    std::vector<double> values;
    for (std::size_t k = 0; k < count; ++k) values.push_back(std::pow(10, random.uniform(-3, 0)));
    return values;
  }
};

// The definition: X = U S V^T becomes U p(p(...(S / norm))) V^T, whatever its shape. Rounding grows by
// the slope at zero in each step, 3.4445^5 = 485 in all.
TEST_F(NewtonSchulzTest, ChangesSingularValuesAndNothingElse) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    for (int trial = 0; trial < 12; ++trial) {
      const std::size_t rows = random.between(1, 40);
      const std::size_t columns = random.between(1, 40);
      std::vector<double> values = draw_values(std::min(rows, columns));
      const Matrix left = orthonormal(random, values.size(), rows);
      const Matrix right = orthonormal(random, values.size(), columns);
      const Tensor matrix = tensor_of(device, with_singular_values(values, left, right), dtype);
      newton_schulz(matrix);
      double squares = 0;
      for (const double s : values) squares += s * s;
      for (double& s : values) s = moved(s / (std::sqrt(squares) + 1e-7));
      EXPECT_TRUE(ultra::test::all_near(matrix, elements(with_singular_values(values, left, right)),
                                        ultra::test::rounding_bound(dtype, 485 * 10, 1.0)))
          << rows << " x " << columns << " of " << to_string(dtype);
    }
  }
}

TEST_F(NewtonSchulzTest, BringsSingularValuesIntoTheBandThatItsHeaderNames) {
  constexpr int kValues = 100'000;
  for (int i = 0; i <= kValues; ++i) {
    const double s = 0.002 + (1 - 0.002) * i / kValues;
    ASSERT_GT(moved(s), 0.68) << s;
    ASSERT_LT(moved(s), 1.21) << s;
  }
  // And a matrix of noise, whose smallest singular value is no smaller than that, with room to spare.
  const Tensor matrix = random.tensor(device, {12, 60}, DType::kF64);
  newton_schulz(matrix);
  const std::vector<double> x = matrix.to_vector();
  double squares = 0;
  for (const double element : x) squares += element * element;
  EXPECT_GT(squares, 12 * 0.68 * 0.68);
  EXPECT_LT(squares, 12 * 1.21 * 1.21);
}

TEST_F(NewtonSchulzTest, RotatesWithItsMatrix) {
  const std::size_t rows = random.between(2, 20);
  const std::size_t columns = random.between(2, 20);
  Matrix x(rows, std::vector<double>(columns));
  for (auto& row : x) {
    for (double& element : row) element = random.normal();
  }
  const Matrix rotation = orthonormal(random, rows, rows);
  const Tensor turned_first = tensor_of(device, product(rotation, x), DType::kF64);
  newton_schulz(turned_first);
  const Tensor turned_last = tensor_of(device, x, DType::kF64);
  newton_schulz(turned_last);
  const std::vector<double> numbers = turned_last.to_vector();
  for (std::size_t i = 0; i < numbers.size(); ++i) x[i / columns][i % columns] = numbers[i];
  EXPECT_TRUE(ultra::test::all_near(turned_first, elements(product(rotation, x)),
                                    ultra::test::rounding_bound(DType::kF64, 485 * 100, 1.0)));
}

TEST_F(NewtonSchulzTest, LeavesZerosAsTheyAre) {
  const Tensor zeros = Tensor::zeros(device, {3, 5}, DType::kF32);
  newton_schulz(zeros);
  EXPECT_EQ(zeros.to_vector(), std::vector<double>(15, 0.0));
}

// At most 6 n m^2 for each step, as the write-up counts them, when the matrix is square.
TEST_F(NewtonSchulzTest, CountsItsProducts) {
  EXPECT_EQ(newton_schulz_flops(10, 10), 5U * 6 * 1000);
  EXPECT_EQ(newton_schulz_flops(3, 7), newton_schulz_flops(7, 3)) << "transposed";
  // X X^T, then its square, then their combination times X: 2 operations per multiply and add.
  EXPECT_EQ(newton_schulz_flops(3, 7, 1), 2U * (3 * 3 * 7 + 3 * 3 * 3 + 3 * 3 * 7));
}

}  // namespace
}  // namespace ultra::optim
