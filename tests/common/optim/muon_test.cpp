// Covers: common/optim/newton_schulz.hpp

#include "common/optim/muon.hpp"

#include "common/optim/adamw.hpp"
#include "common/optim/newton_schulz.hpp"
#include "common/optim/optimizer.hpp"
#include "common/optim/rules.hpp"
#include "tests/common/optim/orthogonal.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::optim {
namespace {

using namespace test;

Matrix scaled(Matrix a, double factor) {
  for (auto& row : a) {
    for (double& x : row) x *= factor;
  }
  return a;
}

Matrix sum(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) a[i][j] += b[i][j];
  }
  return a;
}

/// Newton-Schulz steps as the write-up has them: of the transpose where a matrix is tall.
Matrix orthogonalized(const Matrix& matrix) {
  const bool tall = matrix.size() > matrix.front().size();
  Matrix x = tall ? transposed(matrix) : matrix;
  double squares = 0;
  for (const double element : elements(x)) squares += element * element;
  x = scaled(x, 1 / (std::sqrt(squares) + 1e-7));
  for (int step = 0; step < 5; ++step) {
    const Matrix a = product(x, transposed(x));
    const Matrix b = sum(scaled(a, -4.7750), scaled(product(a, a), 2.0315));
    x = sum(scaled(x, 3.4445), product(b, x));
  }
  return tall ? transposed(x) : x;
}

class MuonTest : public ultra::test::RandomTest {
 protected:
  Matrix draw(std::size_t rows, std::size_t columns) {
    Matrix matrix(rows, std::vector<double>(columns));
    for (auto& row : matrix) {
      for (double& x : row) x = random.normal();
    }
    return matrix;
  }
};

TEST_F(MuonTest, StepsAsItsFormulaSays) {
  for (int trial = 0; trial < 6; ++trial) {
    const std::size_t rows = random.between(1, 12);
    const std::size_t columns = random.between(1, 12);
    const double rate = random.uniform(1e-3, 1e-1);
    const double scale = random.uniform(0.1, 1.0);
    const bool decay = trial % 2 == 0;
    Matrix weights = draw(rows, columns);
    Matrix buffer(rows, std::vector<double>(columns, 0.0));
    const Tensor value = tensor_of(device, weights, DType::kF64);
    Optimizer optimizer(muon(adamw()), states_on_device(), {WeightKind::kMatrix});
    for (int step = 1; step <= 4; ++step) {
      const Matrix gradient = draw(rows, columns);
      const TensorUpdate update{
          .value = value, .grad = tensor_of(device, gradient, DType::kF64), .decay = decay};
      optimizer.step({&update, 1}, rate, scale);
      const Matrix clipped = scaled(gradient, scale);
      buffer = sum(scaled(buffer, 0.95), clipped);
      const Matrix along = orthogonalized(sum(clipped, scaled(buffer, 0.95)));
      const double factor = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
      weights = sum(scaled(weights, decay ? 1 - rate * 0.1 : 1.0), scaled(along, -rate * factor));
      EXPECT_TRUE(ultra::test::all_equal(update.grad, elements(gradient))) << "it is read";
    }
    EXPECT_TRUE(ultra::test::all_near(value, elements(weights), 1e-11)) << rows << " x " << columns;
  }
}

// What both rules share a learning rate for: 0.2 times it, about, is how far an element moves.
TEST_F(MuonTest, MovesElementsOfAnyShapeAboutEquallyFar) {
  for (const auto& [rows, columns] :
       {std::pair<std::size_t, std::size_t>{16, 16}, {8, 64}, {64, 8}}) {
    const Tensor value = Tensor::zeros(device, {rows, columns}, DType::kF64);
    const TensorUpdate update{
        .value = value, .grad = random.tensor(device, {rows, columns}, DType::kF64), .decay = true};
    Optimizer optimizer(muon(adamw()), states_on_device(), {WeightKind::kMatrix});
    optimizer.step({&update, 1}, 1.0, 1.0);
    double squares = 0;
    for (const double x : value.to_vector()) squares += x * x;
    const double moved = std::sqrt(squares / static_cast<double>(value.numel()));
    EXPECT_GT(moved, 0.2 * 0.5) << rows << " x " << columns;
    EXPECT_LT(moved, 0.2 * 1.21) << rows << " x " << columns;
  }
}

TEST_F(MuonTest, LeavesOtherWeightsToAdamW) {
  const Tensor gradient = random.tensor(device, {5, 4}, DType::kF32);
  const Tensor by_muon = random.tensor(device, {5, 4}, DType::kF32);
  const Tensor by_adamw = by_muon.clone();
  Optimizer one(make_rule("muon"), states_on_device(), {WeightKind::kOther});
  Optimizer other(adamw());
  for (int step = 1; step <= 3; ++step) {
    const TensorUpdate first{.value = by_muon, .grad = gradient, .decay = true};
    const TensorUpdate second{.value = by_adamw, .grad = gradient, .decay = true};
    one.step({&first, 1}, 1e-2, 0.5);
    other.step({&second, 1}, 1e-2, 0.5);
  }
  EXPECT_TRUE(ultra::test::all_equal(by_muon, by_adamw)) << "bit for bit";
}

TEST_F(MuonTest, KeepsHalfOfAdamWsStatesOfMatrices) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    const std::vector<TensorUpdate> updates = {{.value = random.tensor(device, {7, 3}, dtype),
                                                .grad = random.tensor(device, {7, 3}, dtype),
                                                .decay = true},
                                               {.value = random.tensor(device, {11}, dtype),
                                                .grad = random.tensor(device, {11}, dtype),
                                                .decay = false}};
    Optimizer optimizer(make_rule("muon"), states_on_device(),
                        {WeightKind::kMatrix, WeightKind::kOther});
    optimizer.step(updates, 1e-3, 1.0);
    EXPECT_EQ(device.memory().current()[MemoryCategory::kOptimizer],
              (7 * 3 + 2 * 11) * size_of(dtype));
    EXPECT_TRUE(optimizer.keeps("momentum_buffer") && optimizer.keeps("exp_avg_sq"));
    EXPECT_FALSE(optimizer.keeps("other"));
  }
  EXPECT_TRUE(needs_whole_matrices("muon"));
  EXPECT_FALSE(needs_whole_matrices("adamw") || needs_whole_matrices("sgd"));
}

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
