// PowerSGD on one rank, against matrices whose best approximation is known.

#include "chapters/03_data_parallel/compression/power_sgd.hpp"

#include "common/ops/matmul.hpp"
#include "tests/chapters/03_data_parallel/compression/exchange_trial.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using namespace test;

/// [rows, columns] = sum over k of singular[k] u_k v_k^T with random orthonormal u and v, from the seed.
Tensor with_singular_values(const Device& device, std::size_t seed, std::size_t rows,
                            std::size_t columns, const std::vector<double>& singular, DType dtype) {
  const std::size_t count = singular.size();
  const Tensor u = gradient_of(device, count * rows, DType::kF64, seed, 0, 0);
  const Tensor v = gradient_of(device, count * columns, DType::kF64, seed, 1, 0);
  orthonormalize<double>(u.span<double>(), count);
  orthonormalize<double>(v.span<double>(), count);
  for (std::size_t k = 0; k < count; ++k) {
    for (double& x : u.span<double>().subspan(k * rows, rows)) x *= singular[k];
  }
  return ops::matmul(u.view({count, rows}), ops::Transpose::kYes, v.view({count, columns}),
                     ops::Transpose::kNo)
      .view({rows * columns})
      .to(dtype);
}

class PowerSgd : public RandomTest {
 protected:
  std::size_t draw_seed = random.between(0, 1000000);  ///< of the matrices

  /// Steps of one rank on the same gradient: the distance of each result to it.
  [[nodiscard]] static std::vector<double> distances(const Device& device, const Tensor& gradient,
                                                     std::size_t rows, std::size_t columns,
                                                     const PowerSgdOptions& options, int steps) {
    std::vector<double> found;
    run_ranks(1, [&](Communicator& world) {
      const auto exchange = power_sgd_exchange(world, options)(contents_of({{rows, columns}}),
                                                               device, gradient.dtype());
      for (int step = 0; step < steps; ++step) {
        found.push_back(distance(exchanged(*exchange, gradient), gradient.to_vector()));
      }
    });
    return found;
  }
};

TEST_F(PowerSgd, OrthonormalizeGivesUnitVectorsAtRightAngles) {
  for (const DType dtype : kFloatDTypes) {
    const std::size_t count = random.between(1, 6);
    const std::size_t length = random.between(count, 200);
    const Tensor vectors = gradient_of(device, count * length, dtype, draw_seed, 0, 0);
    dispatch_float(dtype, [&]<class T>() {
      const std::span<T> all = vectors.span<T>();
      // Nearly dependent: one pass would leave angles of a hundredth.
      for (std::size_t v = 1; v < count; ++v) {
        for (std::size_t i = 0; i < length; ++i) {
          all[v * length + i] = all[i] + T(1e-3) * all[v * length + i];
        }
      }
      orthonormalize<T>(all, count);
    });
    const std::vector<double> all = vectors.to_vector();
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = 0; b <= a; ++b) {
        double product = 0;
        for (std::size_t i = 0; i < length; ++i)
          product += all[a * length + i] * all[b * length + i];
        // Elements are rounded; their products, of size 1 in all, are summed in f64. Each of the up to
        // 6 projections of the second pass rounds once more.
        EXPECT_NEAR(product, a == b ? 1 : 0, rounding_bound(dtype, 20, 1)) << a << b;
      }
    }
  }
}

TEST_F(PowerSgd, OrthonormalizeDropsWhatDependsOnTheRest) {
  const std::vector<double> values = {3, 4, 0, 6, 8, 0, 0, 0, 0, 0, 0, 2};
  const Tensor vectors = Tensor::from<double>(device, {12}, values);
  orthonormalize<double>(vectors.span<double>(), 4);
  EXPECT_TRUE(all_near(vectors, {0.6, 0.8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 1e-15));
  orthonormalize<double>({}, 0);
}

TEST_F(PowerSgd, AMatrixOfTheRankIsExactAtOnce) {
  for (const std::size_t rank : {1U, 2U, 3U}) {
    const std::size_t rows = random.between(10, 40);
    const std::size_t columns = random.between(10, 40);
    std::vector<double> singular;
    for (std::size_t k = 0; k < rank; ++k) singular.push_back(random.uniform(0.5, 2));
    const Tensor m = with_singular_values(device, draw_seed, rows, columns, singular, DType::kF64);
    for (const double error : distances(device, m, rows, columns, {.rank = rank}, 3)) {
      EXPECT_LE(error, 1e-10 * norm_of(m.to_vector()));
    }
  }
}

TEST_F(PowerSgd, AMatrixOfALowerRankIsExactToo) {
  const Tensor m = with_singular_values(device, draw_seed, 20, 30, {2.0}, DType::kF64);
  for (const double error : distances(device, m, 20, 30, {.rank = 4}, 4)) {
    EXPECT_LE(error, 1e-10 * 2.0);
  }
  const Tensor zero = Tensor::zeros(device, {600}, DType::kF64);
  for (const double error : distances(device, zero, 20, 30, {.rank = 4}, 2)) EXPECT_EQ(error, 0);
}

// The best approximation of rank R leaves the singular values behind the R-th (Eckart and Young 1936).
// Each warm step is one of subspace iteration, which converges like (s_{R+1} / s_R)^2 = 1/4 here.
TEST_F(PowerSgd, WarmStartConvergesToTheBestApproximation) {
  const std::vector<double> singular = {8, 4, 2, 1, 0.5};
  const Tensor m = with_singular_values(device, draw_seed, 40, 30, singular, DType::kF64);
  for (const std::size_t rank : {1U, 2U, 3U}) {
    const std::vector<double> left(singular.begin() + static_cast<std::ptrdiff_t>(rank),
                                   singular.end());
    const double best = norm_of(left);
    const std::vector<double> errors =
        distances(device, m, 40, 30, {.rank = rank, .feedback = ErrorFeedback::kOff}, 30);
    for (std::size_t step = 0; step < errors.size(); ++step) {
      EXPECT_GE(errors[step], best * (1 - 1e-12)) << "nothing is better than the best";
      EXPECT_LE(errors[step], errors[step == 0 ? 0 : step - 1] * (1 + 1e-12)) << step;
    }
    EXPECT_NEAR(errors.back(), best, 1e-10 * best);
    EXPECT_GT(errors.front(), best * (1 + 1e-6)) << "the first step is not there yet";
  }
}

TEST(HasFactors, WhereTheyAreSmallerThanTheMatrix) {
  EXPECT_TRUE(has_factors({128, 128}, 4));
  EXPECT_TRUE(has_factors({4, 5}, 2)) << "18 < 20";
  EXPECT_FALSE(has_factors({4, 4}, 2)) << "16 = 16";
  EXPECT_FALSE(has_factors({1, 1000}, 1)) << "1001 > 1000";
  EXPECT_FALSE(has_factors({128}, 1));
  EXPECT_FALSE(has_factors({4, 128, 128}, 1));
  EXPECT_FALSE(has_factors({0, 3}, 1));
}

}  // namespace
}  // namespace ultra::data_parallel
