// The CPU and the device whose sums follow trees: near the other CPU's, and of the same bits however an axis is
// cut.
//
// Covers: common/ops/backend/cpu/tree/tree_rows.hpp, common/ops/backend/backend.hpp
// Covers: common/ops/backend/cpu/tree_gemm.hpp

#include "common/ops/cross_entropy.hpp"

#include "common/ops/backend/cpu/tree_gemm.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/embedding.hpp"
#include "common/ops/partial_softmax.hpp"
#include "common/ops/rms_norm.hpp"
#include "common/ops/sums/exact_sum.hpp"
#include "common/tensor/host_view.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

class TreeBackendTest : public test::RandomTest, public ::testing::WithParamInterface<DeviceKind> {
 protected:
  Tensor numbers(const Shape& shape) { return random.tensor(trees, shape, dtype, 1.0); }
  Tensor on_cpu(const Tensor& tensor) { return tensor.to(Device::cpu()); }
  Tensor zeros(const Shape& shape) { return Tensor::zeros(trees, shape, dtype); }

  /// A sum of parts, joined as the tree joins: two halves.
  Tensor of_halves(std::size_t length, const std::function<Tensor(Range)>& of) {
    return add(of({0, length / 2}), of({length / 2, length}));
  }

  /// Lets `check` run in both types.
  void in_both_types(const std::function<void()>& check) {
    for (const DType type : test::kFloatDTypes) {
      dtype = type;
      check();
    }
  }

  double near() const { return dtype == DType::kF32 ? 1e-4 : 1e-12; }

  Device trees = Device::create(GetParam(), 0, MatmulLibrary::kTrees);
  DType dtype = DType::kF32;
};

TEST_P(TreeBackendTest, ProductsAreTheOtherCpusAndThoseOfTheirInnerAxesHalves) {
  in_both_types([&] {
    const std::size_t leaf = random.between(1, 16);
    const std::size_t k = (leaf % 2 == 0 ? leaf + 1 : leaf) * 32;
    const Tensor a = numbers({random.between(1, 30), k});
    const Tensor b = numbers({random.between(1, 30), k});
    const auto product = [](const Tensor& left, const Tensor& right) {
      return matmul(left, Transpose::kNo, right, Transpose::kYes);
    };
    const Tensor whole = product(a, b);
    EXPECT_TRUE(all_near(whole, product(on_cpu(a), on_cpu(b)), near() * 32));
    EXPECT_TRUE(test::all_equal(whole, of_halves(k, [&](Range part) {
                                  return product(a.slice(1, part), b.slice(1, part));
                                })));
  });
}

TEST_P(TreeBackendTest, WeightsOfNormsAreTheOtherCpusAndThoseOfTheTokensHalves) {
  in_both_types([&] {
    const std::size_t rows = 16 * (std::size_t{1} << random.between(1, 4));
    const std::size_t hidden = random.between(1, 70);
    const Tensor x = numbers({rows, hidden});
    const Tensor d_y = numbers({rows, hidden});
    const Tensor weight = numbers({hidden});
    const auto d_weight = [&](const Device& of, Range part) {
      const Tensor x_part = x.slice(0, part).contiguous().to(of);
      const Tensor grad = Tensor::empty(of, {hidden}, dtype);
      static_cast<void>(rms_norm_backward(
          d_y.slice(0, part).contiguous().to(of), x_part, weight.to(of),
          rms_norm(x_part, weight.to(of), 1e-5).reciprocal_rms, grad, Write::kOverwrite));
      return grad;
    };
    const Tensor whole = d_weight(trees, {0, rows});
    EXPECT_TRUE(all_near(whole, d_weight(Device::cpu(), {0, rows}), near() * 16));
    EXPECT_TRUE(
        test::all_equal(whole, of_halves(rows, [&](Range part) { return d_weight(trees, part); })));
  });
}

TEST_P(TreeBackendTest, RowsOfTablesAreTheOtherCpusAndThoseOfTheTokensHalves) {
  in_both_types([&] {
    const std::size_t count = 16 * (std::size_t{1} << random.between(1, 4));
    const std::size_t hidden = random.between(1, 20);
    const Tensor tokens = random.tokens(trees, {1, count}, 9);
    const Tensor d_output = numbers({1, count, hidden});
    const auto table = [&](const Device& of, Range part, std::size_t first, std::size_t rows) {
      const Tensor grad = Tensor::zeros(of, {rows, hidden}, dtype);
      embedding_part_backward_into(grad, d_output.slice(1, part).contiguous().to(of),
                                   tokens.slice(1, part).contiguous().to(of), first);
      return grad;
    };
    const Tensor whole = table(trees, {0, count}, 0, 9);
    EXPECT_TRUE(all_near(whole, table(Device::cpu(), {0, count}, 0, 9), near() * 16));
    EXPECT_TRUE(test::all_equal(
        whole, of_halves(count, [&](Range part) { return table(trees, part, 0, 9); })));
    EXPECT_TRUE(test::all_equal(whole.slice(0, {3, 7}), table(trees, {0, count}, 3, 4)));
  });
}

TEST_P(TreeBackendTest, LossesAreTheOtherCpusAndThoseOfAVocabularyInParts) {
  in_both_types([&] {
    const std::size_t vocab = 64;
    const std::size_t count = random.between(1, 20);
    const Tensor logits = numbers({count, vocab});
    const Tensor targets = random.tokens(trees, {count}, vocab);
    targets.slice(0, {0, 1}).fill(kNoTarget);
    const double normalizer = 7.0;
    const Tensor dense = logits.clone();
    const double loss = cross_entropy_into_gradient(dense, targets, normalizer);
    const Tensor others = on_cpu(logits).clone();
    EXPECT_NEAR(loss, cross_entropy_into_gradient(others, on_cpu(targets), normalizer),
                near() * 10);
    EXPECT_TRUE(all_near(dense, others, near()));

    std::vector<LogitsOfPart> parts;
    std::vector<Tensor> highest;
    for (const Range part : {Range{0, 32}, Range{32, 64}}) {
      parts.push_back({logits.slice(1, part).contiguous(), targets, part});
      highest.push_back(highest_logits(parts.back()));
    }
    dispatch_float(dtype, [&]<class T>() {
      const HostView<T> most(highest[0], HostAccess::kReadWrite);
      const HostView<const T> others_most(highest[1]);
      for (std::size_t i = 0; i < count; ++i) {
        most.data()[i] = std::max(most.data()[i], others_most.data()[i]);
      }
    });
    const Tensor sums = add(exponentials_of_logits(parts[0], highest[0]),
                            exponentials_of_logits(parts[1], highest[0]));
    for (const LogitsOfPart& part : parts) {
      const Tensor digits = Tensor::empty(trees, {ExactSum::kDigits}, DType::kF64);
      cross_entropy_of_parts(digits, part, highest[0], sums, normalizer, Write::kOverwrite);
      EXPECT_EQ(ExactSum(digits.to_vector()).value(), loss);
      EXPECT_TRUE(test::all_equal(part.logits, dense.slice(1, part.vocabulary)));
    }
  });
}

TEST_P(TreeBackendTest, AttentionIsTheOtherCpusAndEachSequencesAndHeadsOwn) {
  in_both_types([&] {
    const std::size_t seq = random.between(1, 150);
    const std::size_t dim = random.between(1, 24);
    const auto draw = [&](std::size_t heads) { return numbers({3, seq, heads, dim}); };
    const Tensor query = draw(4);
    const Tensor key = draw(2);
    const Tensor value = draw(2);
    const Tensor d_output = draw(4);
    const AttentionOptions options{.mask = Mask::kCausal, .scale = 0.3};
    const auto gradients = [&](const auto& part) {
      const auto [q, k, v, d] = std::array{part(query), part(key), part(value), part(d_output)};
      const auto [output, log_sum_exp] = attention(q, k, v, options);
      return std::pair(output, attention_backward(d, q, k, v, output, log_sum_exp, options));
    };
    const auto [output, all] = gradients([](const Tensor& t) { return t; });
    const auto [other_output, others] = gradients([&](const Tensor& t) { return on_cpu(t); });
    EXPECT_TRUE(all_near(output, other_output, near() * 10));
    EXPECT_TRUE(all_near(all.d_query, others.d_query, near() * 100));
    EXPECT_TRUE(all_near(all.d_key, others.d_key, near() * 100));
    EXPECT_TRUE(all_near(all.d_value, others.d_value, near() * 100));

    const auto one = [](const Tensor& t) {  // the last sequence, the second half of the heads
      const Range heads{t.size(2) / 2, t.size(2)};
      return t.slice(0, {2, 3}).slice(2, heads).contiguous();
    };
    const auto [own_output, own] = gradients(one);
    EXPECT_TRUE(test::all_equal(own_output, one(output)));
    EXPECT_TRUE(test::all_equal(own.d_query, one(all.d_query)));
    EXPECT_TRUE(test::all_equal(own.d_key, one(all.d_key)));
    EXPECT_TRUE(test::all_equal(own.d_value, one(all.d_value)));
  });
}

TEST_P(TreeBackendTest, SquaresAreExactInAnyParts) {
  in_both_types([&] {
    const Tensor x = numbers({random.between(2, 500)});
    const std::size_t cut = random.between(1, x.numel() - 1);
    const Tensor digits = Tensor::empty(trees, {ExactSum::kDigits}, DType::kF64);
    sum_of_squares_into(digits, x.slice(0, {cut, x.numel()}), Write::kOverwrite);
    sum_of_squares_into(digits, x.slice(0, {0, cut}), Write::kAccumulate);
    EXPECT_EQ(ExactSum(digits.to_vector()).value(), sum_of_squares(x));
    EXPECT_NEAR(sum_of_squares(x), sum_of_squares(on_cpu(x)), 1e-12 * sum_of_squares(x));
  });
}

TEST_P(TreeBackendTest, ASumOnItNeedsAllDigits) {
  const Tensor number = Tensor::zeros(trees, {1}, DType::kF64);
  EXPECT_THAT(
      message_of<ShapeError>([&] { sum_of_squares_into(number, numbers({3}), Write::kOverwrite); }),
      HasSubstr("[19]"));
}

INSTANTIATE_TEST_SUITE_P(On, TreeBackendTest,
                         ::testing::Values(DeviceKind::kCpu, DeviceKind::kEmulated),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

}  // namespace
}  // namespace ultra::ops

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
