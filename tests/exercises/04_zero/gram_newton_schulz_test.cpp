// Contract of exercise 04.12: singular values against the polynomial of numbers, for matrices whose
// singular values and vectors are known; and the operations, which a device counts that computes nothing.
#include "chapters/04_zero/whole_matrices/gram_newton_schulz.hpp"

#include "common/gpu/meta/tape.hpp"
#include "tests/common/optim/orthogonal.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using optim::test::elements;
using optim::test::Matrix;

/// The steps, and those with a typical mistake.
enum class Way { kRight, kGramByOneFactor, kWithoutTheLinearTerm, kNotDivided };

/// What becomes of a singular value of a matrix of some norm.
double moved(double s, double norm, std::size_t steps, Way way) {
  const optim::NewtonSchulz constants;
  const double divided = s / (norm + constants.epsilon);
  double gram = divided * divided;
  double all = 1;
  for (std::size_t step = 0; step < steps; ++step) {
    const double factor = constants.a + constants.b * gram + constants.c * gram * gram;
    all *= way == Way::kWithoutTheLinearTerm ? factor - constants.a : factor;
    gram *= way == Way::kGramByOneFactor ? factor : factor * factor;
  }
  return all * (way == Way::kNotDivided ? s : divided);
}

/// A matrix, known through and through.
struct Known {
  std::vector<double> values;
  Matrix left;   // [values][rows]
  Matrix right;  // [values][columns]

  [[nodiscard]] Matrix matrix() const {
    return optim::test::with_singular_values(values, left, right);
  }
  [[nodiscard]] double norm() const {
    double squares = 0;
    for (const double s : values) squares += s * s;
    return std::sqrt(squares);
  }
  [[nodiscard]] Known after(std::size_t steps, Way way) const {
    Known other = *this;
    for (double& s : other.values) s = moved(s, norm(), steps, way);
    return other;
  }
};

class GramNewtonSchulzTest : public ultra::test::RandomTest {
 protected:
  Known draw(std::size_t rows, std::size_t columns, double smallest) {
    Known known;
    for (std::size_t k = 0; k < std::min(rows, columns); ++k) {
      known.values.push_back(std::pow(10, random.uniform(std::log10(smallest), 0)));
    }
    known.left = optim::test::orthonormal(random, known.values.size(), rows);
    known.right = optim::test::orthonormal(random, known.values.size(), columns);
    return known;
  }

  [[nodiscard]] Tensor stepped(const Known& known, DType dtype, std::size_t steps = 5) const {
    const Tensor matrix = optim::test::tensor_of(device, known.matrix(), dtype);
    gram_newton_schulz(matrix, {.steps = steps});
    return matrix;
  }

  static std::string hint_for(const Tensor& found, const Known& known, std::size_t steps) {
    const auto is = [&](Way way) {
      return static_cast<bool>(all_near(found, elements(known.after(steps, way).matrix()), 1e-6));
    };
    if (is(Way::kGramByOneFactor)) {
      return "the Gram matrix of Z X is Z X X^T Z: a step multiplies R by Z twice.";
    }
    if (is(Way::kWithoutTheLinearTerm)) {
      return "a X is part of each step: where Z has no a I, a times what it multiplies is added.";
    }
    if (is(Way::kNotDivided)) {
      return "what Q multiplies is the matrix divided by its Frobenius norm, as for the Gram "
             "matrix.";
    }
    return "Q is the product of all Z = a I + b R + c R^2, each with the R of its step; it stands "
           "left of a wide X and right of a tall one.";
  }
};

// Errors of R weigh as much as the slope of Q at zero: 3.4445 to the power of 15 after five steps.
TEST_F(GramNewtonSchulzTest, ChangesSingularValuesAsThePolynomialSays) {
  for (const std::size_t steps : {1U, 2U, 5U}) {
    for (const auto& [rows, columns] : std::vector<std::pair<std::size_t, std::size_t>>{
             {6, 6}, {1, 7}, {random.between(2, 9), 20}, {20, random.between(2, 9)}}) {
      const Known known = draw(rows, columns, 1e-3);
      const Tensor found = stepped(known, DType::kF64, steps);
      EXPECT_TRUE(all_near(found, elements(known.after(steps, Way::kRight).matrix()), 1e-9))
          << fmt::format("{} steps of a matrix of {} x {}\nHint: {}", steps, rows, columns,
                         hint_for(found, known, steps));
      if (HasFailure()) return;
    }
  }
}

TEST_F(GramNewtonSchulzTest, BringsSingularValuesIntoTheirBand) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    Known known = draw(8, 24, 0.1);
    const std::vector<double> found = stepped(known, dtype).to_vector();
    for (std::size_t k = 0; k < known.values.size(); ++k) {
      double value = 0;  // u^T X v
      for (std::size_t i = 0; i < 8; ++i) {
        for (std::size_t j = 0; j < 24; ++j) {
          value += known.left[k][i] * found[i * 24 + j] * known.right[k][j];
        }
      }
      EXPECT_GT(value, 0.67) << "a singular value of 0.68 at least";
      EXPECT_LT(value, 1.22) << "a singular value of 1.21 at most";
    }
  }
}

TEST_F(GramNewtonSchulzTest, LeavesZerosAsTheyAre) {
  const Tensor zeros = Tensor::zeros(device, {3, 5}, DType::kF32);
  gram_newton_schulz(zeros);
  EXPECT_EQ(zeros.to_vector(), std::vector<double>(15, 0.0)) << "Hint: what is epsilon for?";
}

TEST_F(GramNewtonSchulzTest, TouchesTheLargeSideTwice) {
  for (const std::size_t steps : {1U, 5U}) {
    for (const bool wide : {true, false}) {
      const std::size_t m = random.between(2, 20);
      const std::size_t n = m * random.between(2, 8);
      gpu::Tape tape;
      tape.run(true);
      const Device counting = Device::meta(tape);
      const Tensor matrix = Tensor::empty(counting, wide ? Shape{m, n} : Shape{n, m}, DType::kF32);
      gram_newton_schulz(matrix, {.steps = steps});
      double flop = 0;
      for (const gpu::TapedWork& work : tape.works) {
        if (work.kind == gpu::WorkKind::kProduct) flop += work.flop;
      }
      EXPECT_GE(flop, count_of(2 * n * m * m)) << "Hint: X X^T alone takes as many.";
      EXPECT_LE(flop, count_of(gram_newton_schulz_flops(m, n, steps))) << fmt::format(
          "{} steps of a matrix of {} x {}\nHint: only the Gram matrix and the last "
          "product see the large side; each step has four products of {} x {}, and "
          "the last one makes no R for a step that never comes.",
          steps, wide ? m : n, wide ? n : m, m, m);
    }
  }
}

}  // namespace
}  // namespace ultra::zero
