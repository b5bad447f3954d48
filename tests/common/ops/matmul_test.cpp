#include "common/ops/matmul.hpp"

#include <atomic>

#include "tests/support/toolbox.hpp"
#include "tests/support/training/finite_difference.hpp"

namespace ultra::ops {
namespace {

/// op(t) as a plain row-major matrix.
struct Matrix {
  Matrix(const Tensor& t, Transpose transpose)
      : values((transpose == Transpose::kNo ? t : t.transpose(0, 1)).to_vector()),
        rows(t.size(transpose == Transpose::kNo ? 0 : 1)),
        columns(t.size(transpose == Transpose::kNo ? 1 : 0)) {}

  [[nodiscard]] double at(std::size_t i, std::size_t j) const { return values[i * columns + j]; }

  std::vector<double> values;
  std::size_t rows;
  std::size_t columns;
};

/// The product by three loops, and the largest error that k products and sums may have.
struct ExpectedProduct {
  ExpectedProduct(const Matrix& a, const Matrix& b, const std::vector<double>& before,
                  DType dtype) {
    for (std::size_t i = 0; i < a.rows; ++i) {
      for (std::size_t j = 0; j < b.columns; ++j) {
        long double sum = before.empty() ? 0.0 : before[i * b.columns + j];
        long double magnitude = std::abs(sum);
        for (std::size_t k = 0; k < a.columns; ++k) {
          const long double term = static_cast<long double>(a.at(i, k)) * b.at(k, j);
          sum += term;
          magnitude += std::abs(term);
        }
        values.push_back(static_cast<double>(sum));
        tolerances.push_back(
            rounding_bound(dtype, count_of(a.columns + 2), static_cast<double>(magnitude)));
      }
    }
  }

  std::vector<double> values;
  std::vector<double> tolerances;
};

class MatmulTest : public test::RandomTest {
 protected:
  /// A matrix whose rows stand `gap` elements apart inside a wider one.
  [[nodiscard]] Tensor matrix(std::size_t rows, std::size_t columns, DType dtype, std::size_t gap) {
    const std::size_t before = random.between(0, gap);
    return random.tensor(device, {rows, columns + gap}, dtype).slice(1, {before, before + columns});
  }

  [[nodiscard]] std::size_t extent() {
    return random.pick({std::size_t{1}, random.between(1, 9), random.between(10, 70)});
  }

  void check_one_product(DType dtype) {
    const std::size_t m = extent();
    const std::size_t n = extent();
    const std::size_t k = extent();
    const Transpose ta = random.pick({Transpose::kNo, Transpose::kYes});
    const Transpose tb = random.pick({Transpose::kNo, Transpose::kYes});
    const Write write = random.pick({Write::kOverwrite, Write::kAccumulate});
    const std::size_t gap = random.pick({std::size_t{0}, std::size_t{5}});
    const Tensor a = ta == Transpose::kNo ? matrix(m, k, dtype, gap) : matrix(k, m, dtype, gap);
    const Tensor b = tb == Transpose::kNo ? matrix(k, n, dtype, gap) : matrix(n, k, dtype, gap);
    const Tensor out = matrix(m, n, dtype, gap);
    const ExpectedProduct expected(
        Matrix(a, ta), Matrix(b, tb),
        write == Write::kAccumulate ? out.to_vector() : std::vector<double>(), dtype);
    matmul_into(out, a, ta, b, tb, write);
    EXPECT_TRUE(all_near(out, expected.values, expected.tolerances))
        << a.shape().str() << " " << b.shape().str() << " gap " << gap;
  }
};

TEST_F(MatmulTest, EqualsThreeLoopsForAllTransposesStridesAndWrites) {
  for (const DType dtype : test::kFloatDTypes) {
    for (int round = 0; round < 60; ++round) check_one_product(dtype);
  }
}

TEST_F(MatmulTest, OverwritingIgnoresWhatTheOutputHeld) {
  const Tensor a = random.tensor(device, {3, 4}, DType::kF64);
  const Tensor b = random.tensor(device, {4, 2}, DType::kF64);
  const Tensor out = test::filled(device, {3, 2}, DType::kF64, std::nan(""));
  matmul_into(out, a, Transpose::kNo, b, Transpose::kNo);
  EXPECT_TRUE(test::all_equal(out, matmul(a, Transpose::kNo, b, Transpose::kNo)));
}

TEST_F(MatmulTest, WritesInsideAWiderMatrixLeaveTheRestAlone) {
  const Tensor wide = Tensor::zeros(device, {3, 7}, DType::kF32);
  const Tensor a = random.tensor(device, {3, 4}, DType::kF32);
  const Tensor b = random.tensor(device, {4, 2}, DType::kF32);
  matmul_into(wide.slice(1, {3, 5}), a, Transpose::kNo, b, Transpose::kNo);
  for (const Range rest : {Range{0, 3}, Range{5, 7}}) {
    EXPECT_THAT(wide.slice(1, rest).to_vector(), Each(0.0));
  }
}

TEST_F(MatmulTest, AnEmptySumIsZero) {
  const Tensor a = Tensor::zeros(device, {3, 0}, DType::kF64);
  const Tensor b = Tensor::zeros(device, {0, 2}, DType::kF64);
  const Tensor out = random.tensor(device, {3, 2}, DType::kF64);
  const Tensor before = out.clone();
  matmul_into(out, a, Transpose::kNo, b, Transpose::kNo, Write::kAccumulate);
  EXPECT_TRUE(test::all_equal(out, before));
  matmul_into(out, a, Transpose::kNo, b, Transpose::kNo, Write::kOverwrite);
  EXPECT_THAT(out.to_vector(), Each(0.0));
}

TEST_F(MatmulTest, AnEmptyOutputIsLegal) {
  const Tensor a = Tensor::zeros(device, {0, 3}, DType::kF32);
  const Tensor b = Tensor::zeros(device, {3, 2}, DType::kF32);
  EXPECT_EQ(matmul(a, Transpose::kNo, b, Transpose::kNo).shape(), (Shape{0, 2}));
  EXPECT_EQ(matmul(b, Transpose::kYes, a, Transpose::kYes).shape(), (Shape{2, 0}));
}

TEST_F(MatmulTest, ATransposedColumnCountsAsARow) {
  const Tensor column = random.tensor(device, {5, 1}, DType::kF64);
  const Tensor b = random.tensor(device, {5, 3}, DType::kF64);
  const Tensor row = column.transpose(0, 1);  // [1, 5] with strides [1, 1]
  const ExpectedProduct expected(Matrix(row, Transpose::kNo), Matrix(b, Transpose::kNo), {},
                                 DType::kF64);
  EXPECT_TRUE(all_near(matmul(row, Transpose::kNo, b, Transpose::kNo), expected.values,
                       expected.tolerances));
  const Tensor out = Tensor::zeros(device, {3, 1}, DType::kF64).transpose(0, 1);
  matmul_into(out, row, Transpose::kNo, b, Transpose::kNo);
  EXPECT_TRUE(all_near(out, expected.values, expected.tolerances));
}

TEST_F(MatmulTest, TheGradientsOfAProductAreProducts) {
  const Tensor a = random.tensor(device, {random.between(1, 5), random.between(1, 5)}, DType::kF64);
  const Tensor b = random.tensor(device, {a.size(1), random.between(1, 5)}, DType::kF64);
  const Tensor d_out = random.tensor(device, {a.size(0), b.size(1)}, DType::kF64);
  const auto f = [&] {
    return test::inner_product(d_out, matmul(a, Transpose::kNo, b, Transpose::kNo));
  };
  EXPECT_TRUE(test::gradients_match(random, f,
                                    {{"a", a, matmul(d_out, Transpose::kNo, b, Transpose::kYes)},
                                     {"b", b, matmul(a, Transpose::kYes, d_out, Transpose::kNo)}}));
}

TEST_F(MatmulTest, ProductsOfSeveralThreadsAtOnceAreTheSame) {
  // Ranks are threads. A BLAS without locks shares its packing buffers between them and errs.
  const Tensor a = random.tensor(device, {200, 200}, DType::kF64);
  const Tensor b = random.tensor(device, {200, 200}, DType::kF64);
  const auto product = [&] { return matmul(a, Transpose::kNo, b, Transpose::kYes).to_vector(); };
  const std::vector<double> expected = product();
  const int products = has_streams(device.kind()) ? 10 : 150;
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < products; ++i) wrong += product() == expected ? 0 : 1;
    });
  }
  threads.clear();  // joins them
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(MatmulTest, ShapesThatDoNotFitAreNamed) {
  const Tensor a = Tensor::zeros(device, {2, 3}, DType::kF32);
  const Tensor b = Tensor::zeros(device, {4, 5}, DType::kF32);
  EXPECT_THAT(message_of<ShapeError>([&] { return matmul(a, Transpose::kNo, b, Transpose::kNo); }),
              HasSubstr("[2, 3] x [4, 5] does not give [2, 5] of f32"));
  const Tensor out = Tensor::zeros(device, {2, 2}, DType::kF32);
  EXPECT_THAT(message_of<ShapeError>([&] {
                matmul_into(out, a, Transpose::kNo, b.slice(0, {0, 3}), Transpose::kNo);
              }),
              HasSubstr("[2, 3] x [3, 5] does not give [2, 2]"));
}

TEST_F(MatmulTest, OtherDTypesRanksAndColumnStridesAreErrors) {
  const Tensor a = Tensor::zeros(device, {3, 3}, DType::kF32);
  const auto fails = [&](const Tensor& bad) {
    return message_of<ShapeError>([&] { return matmul(a, Transpose::kNo, bad, Transpose::kNo); });
  };
  EXPECT_THAT(fails(a.to(DType::kF64)), HasSubstr("of f32 and [3, 3] of f64"));
  EXPECT_THAT(fails(a.view({9})), HasSubstr("[9]"));
  EXPECT_THAT(fails(a.transpose(0, 1)), HasSubstr("contiguous rows"));
  EXPECT_THAT(fails(Tensor()), HasSubstr("matmul"));
}

// Small whole numbers: every sum is exact, in whatever order.
TEST_F(MatmulTest, ABiasIsAddedToEachRowAndItsGradientIsTheirSum) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    const Shape shape{random.between(1, 3), random.between(1, 5), random.between(1, 9)};
    const auto whole = [&](const Shape& of) {
      const Tensor x = Tensor::empty(Device::cpu(), of, DType::kF64);
      for (double& each : x.span<double>()) each = static_cast<double>(random.between(0, 6)) - 3;
      return x;
    };
    const Tensor x = whole(shape);
    const Tensor bias = whole({shape[2]});
    const Tensor y = x.to(device).to(dtype).clone();
    add_bias(y, bias.to(device).to(dtype));
    const Tensor sum = whole({shape[2]});
    const Tensor added = sum.to(device).to(accumulation_dtype(dtype)).clone();
    const Tensor written = Tensor::empty(device, {shape[2]}, accumulation_dtype(dtype));
    sum_rows_into(added, x.to(device).to(dtype), Write::kAccumulate);
    sum_rows_into(written, x.to(device).to(dtype), Write::kOverwrite);
    const std::vector<double> found = y.to(DType::kF64).to_vector();
    const std::span<const double> in = x.span<double>();
    for (std::size_t feature = 0; feature < shape[2]; ++feature) {
      double rows = 0;
      for (std::size_t at = feature; at < in.size(); at += shape[2]) {
        rows += in[at];
        EXPECT_EQ(found[at], in[at] + bias.span<double>()[feature]) << to_string(dtype);
      }
      EXPECT_EQ(written.to(DType::kF64).to_vector()[feature], rows);
      EXPECT_EQ(added.to(DType::kF64).to_vector()[feature], rows + sum.span<double>()[feature]);
    }
  }
}

}  // namespace
}  // namespace ultra::ops
