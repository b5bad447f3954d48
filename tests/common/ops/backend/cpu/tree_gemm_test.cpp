#include "common/ops/backend/cpu/tree_gemm.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::ops::cpu {
namespace {

template <class T>
struct Matrix {
  std::size_t rows, columns, stride;
  std::vector<T> values;

  [[nodiscard]] T at(std::size_t i, std::size_t j) const { return values[i * stride + j]; }
  [[nodiscard]] MatrixView<T> view() { return {values.data(), stride}; }
  [[nodiscard]] MatrixView<const T> part(std::size_t row, std::size_t column) const {
    return {values.data() + row * stride + column, stride};
  }
};

class TreeGemm : public test::RandomTest {
 protected:
  template <class T>
  Matrix<T> matrix(std::size_t rows, std::size_t columns) {
    Matrix<T> drawn{rows, columns, columns + random.between(0, 3), {}};
    drawn.values.resize(rows * drawn.stride);
    for (T& x : drawn.values) x = static_cast<T>(random.normal());
    return drawn;
  }

  template <class T>
  static Matrix<T> transposed(const Matrix<T>& of) {
    Matrix<T> result{of.columns, of.rows, of.rows, std::vector<T>(of.columns * of.rows)};
    for (std::size_t i = 0; i < of.rows; ++i) {
      for (std::size_t j = 0; j < of.columns; ++j) result.values[j * of.rows + i] = of.at(i, j);
    }
    return result;
  }

  template <class T>
  static Matrix<T> product(const SumTree& tree, std::size_t m, std::size_t n, std::size_t k,
                           MatrixView<const T> a, MatrixView<const T> b) {
    Matrix<T> c{m, n, n, std::vector<T>(m * n)};
    tree_gemm<T>(tree, Transpose::kNo, Transpose::kNo, m, n, k, a, b, Write::kOverwrite, c.view());
    return c;
  }

  template <class T>
  void expect_invariant();
};

/// Of a random product: any part of its rows and columns, any split of its inner axis into nodes, and
/// both ways that factors may lie have the bits of the whole, which is the product.
template <class T>
void TreeGemm::expect_invariant() {
  const SumTree tree = SumTree::of_axis(random.between(1, 100));
  const std::size_t m = random.between(1, 20), n = random.between(1, 50);
  const std::size_t k = tree.leaf() * random.between(1, 12);
  const Matrix<T> a = matrix<T>(m, k), b = matrix<T>(k, n);
  const Matrix<T> whole = product<T>(tree, m, n, k, a.part(0, 0), b.part(0, 0));
  SCOPED_TRACE(fmt::format("[{}, {}] x [{}, {}], leaves of {}", m, k, k, n, tree.leaf()));

  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      long double sum = 0, magnitude = 0;
      for (std::size_t l = 0; l < k; ++l) {
        const long double term = static_cast<long double>(a.at(i, l)) * b.at(l, j);
        sum += term;
        magnitude += std::abs(term);
      }
      EXPECT_NEAR(whole.at(i, j), static_cast<double>(sum),
                  rounding_bound(dtype_of<T>(), static_cast<double>(k + 1),
                                 static_cast<double>(magnitude)));
    }
  }

  const std::size_t row = random.between(0, m - 1), column = random.between(0, n - 1);
  const std::size_t rows = random.between(1, m - row), columns = random.between(1, n - column);
  const Matrix<T> part = product<T>(tree, rows, columns, k, a.part(row, 0), b.part(0, column));
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      EXPECT_EQ(part.at(i, j), whole.at(row + i, column + j)) << "a part of rows and columns";
    }
  }

  const auto add = [](Matrix<T> left, const Matrix<T>& right) {
    for (std::size_t i = 0; i < left.values.size(); ++i) left.values[i] += right.values[i];
    return left;
  };
  const std::size_t node = tree.leaf() << random.between(0, 3);
  NodeCounter<Matrix<T>, decltype(add)> nodes(add);
  for (std::size_t l = 0; l < k; l += node) {
    nodes.add(product<T>(tree, m, n, std::min(node, k - l), a.part(0, l), b.part(l, 0)));
  }
  EXPECT_EQ(nodes.take().values, whole.values) << "the inner axis in nodes of " << node;

  const Matrix<T> a_t = transposed(a), b_t = transposed(b);
  Matrix<T> twice = whole;
  tree_gemm<T>(tree, Transpose::kYes, Transpose::kYes, m, n, k, a_t.part(0, 0), b_t.part(0, 0),
               Write::kAccumulate, twice.view());
  for (std::size_t i = 0; i < twice.values.size(); ++i) {
    EXPECT_EQ(twice.values[i], whole.values[i] + whole.values[i]) << "transposed, and added";
  }
}

TEST_F(TreeGemm, OfPartsHasTheBitsOfTheWhole) {
  for (int i = 0; i < 25 && !HasFailure(); ++i) {
    expect_invariant<float>();
    expect_invariant<double>();
  }
}

TEST_F(TreeGemm, WithoutAnInnerAxisIsZero) {
  Matrix<float> c{2, 3, 3, std::vector<float>(6, 7.0F)};
  tree_gemm<float>(SumTree::of_axis(1), Transpose::kNo, Transpose::kNo, 2, 3, 0, {nullptr, 0},
                   {nullptr, 0}, Write::kOverwrite, c.view());
  EXPECT_EQ(c.values, std::vector<float>(6, 0.0F));
}

}  // namespace
}  // namespace ultra::ops::cpu
