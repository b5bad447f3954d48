#include "common/optim/muon.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "common/optim/adamw.hpp"
#include "common/optim/optimizer.hpp"
#include "common/optim/rules.hpp"
#include "tests/common/optim/orthogonal.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"

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

// A rule of single elements is never asked for matrices.
TEST_F(MuonTest, OtherRulesHaveNoMatrices) {
  const Tensor matrix = Tensor::zeros(device, {2, 2}, DType::kF32);
  EXPECT_THROW(adamw()->transform(matrix), InternalError);
  EXPECT_THROW(static_cast<void>(adamw()->direction(0, {}, {}, {.learning_rate = 1})),
               InternalError);
  EXPECT_THROW(adamw()->step_along(0, {}, {.learning_rate = 1}), InternalError);
}

}  // namespace
}  // namespace ultra::optim
