// Covers: kernels/generic/tree.cuh, kernels/generic/elements/exact_digits.hpp
// Sums by trees, on the checked emulator: of terms whose sum depends on the order, which is that of a tree
// written out here.
#include <cmath>
#include <numeric>

#include "kernels/generic/attention/attention.hpp"
#include "kernels/generic/matmul.hpp"
#include "kernels/generic/partial_softmax.hpp"
#include "kernels/generic/rows/rows.hpp"
#include "tests/kernels/generic/support.hpp"

namespace ultra::kernels::generic::test {
namespace trees_test {

class Trees : public PlainTest {
 protected:
  // Terms of very different sizes.
  std::vector<float> terms(std::size_t count) {
    std::vector<float> drawn(count);
    for (float& term : drawn) {
      term = std::ldexp(static_cast<float>(between(-1000, 1000)), between(0, 23));
    }
    return drawn;
  }
};

// Leaves from their first term to their last; then neighbours, and what has none goes up as it is.
float by_tree(const std::vector<float>& terms, std::size_t leaf) {
  std::vector<float> nodes;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (i % leaf == 0) {
      nodes.push_back(0);
    }
    nodes.back() += terms[i];
  }
  while (nodes.size() > 1) {
    for (std::size_t i = 0; i < nodes.size(); i += 2) {
      nodes[i / 2] = i + 1 < nodes.size() ? nodes[i] + nodes[i + 1] : nodes[i];
    }
    nodes.resize((nodes.size() + 1) / 2);
  }
  return nodes.front();
}

TEST_F(Trees, AreThoseOfProducts) {
  const std::size_t depth = 77;
  const std::vector<float> terms = this->terms(depth);
  const Checked<float> a("a", terms);
  const Checked<float> b("b", std::vector<float>(depth, 1.0F));
  for (const std::size_t leaf : {std::size_t{1}, std::size_t{5}, std::size_t{16}, depth}) {
    Checked<float> out("out", std::vector<float>{1.0F});
    matmul<kChecked>(
        {1, 1, depth, source(a), {depth, 1}, source(b), {1, 1}, target(out), 1, Write::kAdd, leaf},
        {});
    EXPECT_EQ(out.download().front(), by_tree(terms, leaf) + 1.0F) << "leaves of " << leaf;
  }
}

TEST_F(Trees, AreThoseOfRowsOfWeightsAndTables) {
  const std::size_t rows = 45;
  const std::size_t leaf = 4;
  const std::vector<float> terms = this->terms(rows);
  const Checked<float> d_y("d_y", terms);
  const Checked<float> ones("ones", std::vector<float>(rows, 1.0F));
  Checked<float> d_x("d_x", rows);
  Checked<float> d_weight("d_weight", 1);
  Checked<float> scratch("scratch", weight_parts(rows, leaf));
  rms_norm_backward<kChecked>(
      {rows, 1, source(d_y), source(ones), source(ones), source(ones), target(d_x),
       target(d_weight), Write::kOverwrite, scratch.data(), leaf},
      {});
  EXPECT_EQ(d_weight.download().front(), by_tree(terms, leaf));

  std::vector<int> ids(rows);
  std::vector<std::vector<float>> of_rows(3, std::vector<float>(rows, 0.0F));
  for (std::size_t i = 0; i < rows; ++i) {
    ids[i] = static_cast<int>(i * i % 5 % 4);
    if (ids[i] < 3) {
      of_rows[static_cast<std::size_t>(ids[i])][i] = terms[i];
    }
  }
  const Checked<int> tokens("tokens", ids);
  Checked<float> table("table", std::vector<float>(3, 1.0F));
  Checked<int> places("places", 2 * rows);
  embedding_backward<kChecked>({rows, 1, 3, 0, tokens.data(), leaf}, target(table), source(d_y),
                               places.data(), {});
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(table.download()[row], 1.0F + by_tree(of_rows[row], leaf)) << "row " << row;
  }
}

TEST_F(Trees, AreThoseOfAVocabulary) {
  const std::size_t vocab = 413;
  std::vector<float> logits(vocab);
  for (std::size_t i = 0; i < vocab; ++i) {
    logits[i] = -static_cast<float>(i * 37 % 101) / 5;
  }
  const Checked<int> targets("targets", std::vector<int>{3});
  const Checked<float> highest("highest", std::vector<float>{0.0F});
  for (const std::size_t leaf : {std::size_t{3}, std::size_t{16}}) {
    Checked<float> row("row", logits);
    Checked<float> sums("sums", 2);
    const PartOfLogits part{1, vocab, vocab, 0, target(row), targets.data(), leaf};
    exponentials_of_rows<kChecked>(part, source(highest), target(sums), {});
    EXPECT_EQ(sums.download().front(), by_tree(row.download(), leaf)) << "leaves of " << leaf;
  }
}

// The same pairs of queries and keys in another order: near, and each read and written where it may be.
TEST_F(Trees, AreThoseOfKeysThatHeadsShare) {
  std::vector<int> counted(21);
  std::iota(counted.begin(), counted.end(), 0);
  const AttentionShape shape{.batch = 2,
                             .query_seq = 21,
                             .key_seq = 21,
                             .heads = 4,
                             .kv_heads = 2,
                             .head_dim = 3,
                             .scale = 0.5,
                             .is_causal = true,
                             .query_positions = runs_of(counted),
                             .key_positions = runs_of(counted),
                             .first_seen = nullptr};
  const std::size_t queries = 2 * 21 * 4 * 3;
  const std::size_t keys = queries / 2;
  const auto q = eighths<double>("q", queries);
  const auto k = eighths<double>("k", keys);
  const auto v = eighths<double>("v", keys);
  const auto d_o = eighths<double>("d_o", queries);
  Checked<double> o("o", queries);
  Checked<double> lse("lse", queries / 3);
  attention<kChecked>({shape, source(q), source(k), source(v), target(o), target(lse)}, {});
  const auto gradients = [&](std::size_t leaf) {
    Checked<double> d_q("d_q", queries);
    Checked<double> d_k("d_k", keys);
    Checked<double> d_v("d_v", keys);
    Checked<double> delta("delta", queries / 3);
    Checked<double> nodes("nodes", 5 * 2 * keys);
    attention_backward<kChecked>(
        {shape, source(d_o), source(q), source(k), source(v), source(o), source(lse), target(d_q),
         target(d_k), target(d_v), target(delta), leaf, nodes.data()},
        {});
    std::vector<double> all = d_k.download();
    for (const double value : d_v.download()) {
      all.push_back(value);
    }
    return all;
  };
  const std::vector<double> one_leaf = gradients(kOneLeaf);
  for (const std::size_t leaf : {std::size_t{1}, std::size_t{4}, std::size_t{7}}) {
    const std::vector<double> tree = gradients(leaf);
    for (std::size_t i = 0; i < tree.size(); ++i) {
      ASSERT_NEAR(tree[i], one_leaf[i], 1e-13) << "leaves of " << leaf;
    }
  }
}

TEST_F(Trees, HaveNoPlaceInExactSums) {
  std::vector<double> numbers(10'000, 0.0);
  numbers[17] = 1e80;
  numbers[400] = 1e-60;
  numbers[9'000] = -1e80;
  const Checked<double> x("x", numbers);
  Checked<double> digits("digits", std::vector<double>(ExactDigits::kCount, 0.0));
  const std::size_t blocks = partial_sums(numbers.size());
  simt::Buffer<std::int64_t, kChecked> partials("partials", blocks * ExactDigits::kCount);
  for (int i = 0; i < 2; ++i) {
    exact_sum_of<kChecked>(digits.data(), source(x), numbers.size(), Terms::kNumbers,
                           partials.data(), Write::kAdd, {});
  }
  double sum = 0;
  const std::vector<double> found = digits.download();
  for (std::size_t i = 0; i < ExactDigits::kNoPlace; ++i) {
    sum += std::ldexp(found[i], ExactDigits::kBits * static_cast<int>(i) - ExactDigits::kFraction);
  }
  EXPECT_EQ(sum, 2e-60);
}

}  // namespace trees_test
}  // namespace ultra::kernels::generic::test
