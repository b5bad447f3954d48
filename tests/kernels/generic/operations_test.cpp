// Every operation's kernels on the checked emulator, with shapes that divide nothing: no fault is found,
// and the results are those of simple loops. How they compare with the CPU's over many shapes and types
// is tests/common/ops' business.
// Covers: kernels/generic/functions.cuh
// Covers: kernels/generic/attention/positions.cuh
// Covers: kernels/generic/attention/positions.hpp
// Covers: kernels/generic/attention/attention.cuh
// Covers: kernels/generic/attention/attention.hpp
// Covers: kernels/generic/elements/elementwise.hpp
// Covers: kernels/generic/matmul.hpp
// Covers: kernels/generic/rows/rows.hpp
// Covers: kernels/generic/elements/sums.hpp
#include <cmath>
#include <numeric>

#include "kernels/generic/attention/attention.hpp"
#include "kernels/generic/elements/elementwise.hpp"
#include "kernels/generic/elements/sums.hpp"
#include "kernels/generic/matmul.hpp"
#include "kernels/generic/rows/rows.hpp"
#include "tests/kernels/generic/support.hpp"

namespace ultra::kernels::generic::test {
namespace operations_test {

class PlainOperations : public PlainTest {};

TEST_F(PlainOperations, ElementsAreAddedAndScaled) {
  const auto check = [&]<class T, class Term>(T, Term, std::size_t first) {
    const auto count = static_cast<std::size_t>(between(290, 301));
    const auto left = eighths<T>("left", first + count);
    const auto right = eighths<Term>("right", first + count);
    Checked<T> out("out", std::vector<T>(first + count, T(0.0F)));
    const Target part{number_of<T>(), out.data() + first};
    add<kChecked>(part, {number_of<T>(), left.data() + first},
                  {number_of<Term>(), right.data() + first}, count, {});
    scale<kChecked>(part, 0.5, count, {});
    const std::vector<double> x = values_of(left);
    const std::vector<double> y = values_of(right);
    const std::vector<double> found = values_of(out);
    for (std::size_t i = 0; i < first + count; ++i) {
      ASSERT_EQ(found[i], i < first ? 0.0 : (x[i] + y[i]) / 2.0) << i << " from " << first;
    }
  };
  for (const std::size_t first : {std::size_t{0}, std::size_t{1}, std::size_t{4}}) {
    check(double{}, double{}, first);
    check(float{}, float{}, first);
    check(float{}, simt::bf16{}, first);
    check(simt::bf16{}, simt::bf16{}, first);
    check(simt::half{}, simt::half{}, first);
  }
}

TEST_F(PlainOperations, CrossEntropyReadsRowsOfEveryLength) {
  const auto check = [&]<class T>(T, std::size_t vocab, double rounding) {
    const auto logits = eighths<T>("logits", 2 * vocab);
    Checked<T> gradient("gradient", logits.download());
    const std::vector<int> wanted = {0, static_cast<int>(vocab) - 1};
    const Checked<int> targets("targets", wanted);
    Checked<double> loss("loss", 1);
    Checked<double> scratch("scratch", 2);
    cross_entropy<kChecked>({2, vocab, target(gradient), targets.data(), 2.0, loss.data(),
                             Write::kOverwrite, scratch.data()},
                            {});
    const std::vector<double> x = values_of(logits);
    const std::vector<double> found = values_of(gradient);
    double expected = 0.0;
    for (std::size_t row = 0; row < 2; ++row) {
      double sum = 0.0;
      for (std::size_t i = 0; i < vocab; ++i) sum += std::exp(x[row * vocab + i]);
      const auto at = static_cast<std::size_t>(wanted[row]);
      expected += (std::log(sum) - x[row * vocab + at]) / 2.0;
      for (std::size_t i = 0; i < vocab; ++i) {
        const double share = std::exp(x[row * vocab + i]) / sum - (i == at ? 1.0 : 0.0);
        ASSERT_NEAR(found[row * vocab + i], share / 2.0, rounding) << i << " of " << vocab;
      }
    }
    EXPECT_NEAR(loss.download().front(), expected, 1e-4) << vocab;
  };
  for (const int vocab : {1, 3, 4, 128, 4 * between(33, 80), 4 * between(33, 80) + 1}) {
    check(float{}, static_cast<std::size_t>(vocab), 1e-5);
    check(simt::bf16{}, static_cast<std::size_t>(vocab), 0.5 / 256);
    check(simt::half{}, static_cast<std::size_t>(vocab), 0.5 / 2048);
  }
}

TEST_F(PlainOperations, SwigluAndItsGradientsAreFinite) {
  const std::size_t count = 67;
  const auto gate = eighths<double>("gate", count);
  const auto up = eighths<double>("up", count);
  const auto d_product = eighths<double>("d_product", count);
  Checked<double> product("product", count);
  Checked<double> d_gate("d_gate", count);
  Checked<double> d_up("d_up", count);
  swiglu<kChecked>(target(product), source(gate), source(up), count, {});
  swiglu_backward<kChecked>(
      {target(d_gate), target(d_up), source(d_product), source(gate), source(up)}, count, {});
  const std::vector<double> g = values_of(gate);
  for (std::size_t i = 0; i < count; ++i) {
    const double silu = g[i] / (1.0 + std::exp(-g[i]));
    ASSERT_NEAR(values_of(product)[i], silu * values_of(up)[i], 1e-14);
    ASSERT_NEAR(values_of(d_up)[i], silu * values_of(d_product)[i], 1e-14);
  }
}

TEST_F(PlainOperations, SumsOfSquaresReadPacksOfEveryType) {
  const auto check = [&]<class T>(T, std::size_t count, std::size_t first) {
    const auto x = eighths<T>("x", count + first);
    Checked<double> partials("partials", partial_sums(count));
    Checked<double> sum("sum", 1);
    sum_of_squares<kChecked>(sum.data(), {number_of<T>(), x.data() + first}, count, partials.data(),
                             Write::kOverwrite, {});
    double expected = 0;
    const std::vector<double> values = values_of(x);
    for (std::size_t i = first; i < count + first; ++i) {
      expected += values[i] * values[i];
    }
    EXPECT_EQ(sum.download().front(), expected) << count << " from " << first;
  };
  for (const std::size_t count : {std::size_t{8 * 8192}, std::size_t{8 * 8192 + 3}}) {
    for (const std::size_t first : {std::size_t{0}, std::size_t{1}}) {
      check(float{}, count, first);
      check(double{}, count, first);
      check(simt::bf16{}, count, first);
      check(simt::half{}, count, first);
    }
  }
}

TEST_F(PlainOperations, ProductsOfAnyShape) {
  const std::size_t m = 9;
  const std::size_t n = 35;
  const std::size_t k = 7;
  const auto a = eighths<float>("a", k * m);
  const auto b = eighths<float>("b", k * n);
  auto out = eighths<float>("out", m * n);
  const std::vector<double> before = values_of(out);
  matmul<kChecked>({.rows = m,
                    .columns = n,
                    .depth = k,
                    .a = source(a),
                    .a_steps = {.row = 1, .column = m},
                    .b = source(b),
                    .b_steps = {.row = n, .column = 1},
                    .out = target(out),
                    .out_stride = n,
                    .write = Write::kAdd},
                   {});
  const std::vector<double> x = values_of(a);
  const std::vector<double> y = values_of(b);
  const std::vector<double> found = values_of(out);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double expected = before[i * n + j];
      for (std::size_t t = 0; t < k; ++t) {
        expected += x[t * m + i] * y[t * n + j];
      }
      ASSERT_EQ(found[i * n + j], expected);
    }
  }
}

TEST_F(PlainOperations, RmsNormAndItsGradients) {
  const std::size_t rows = 70;
  const std::size_t hidden = 37;
  const auto x = eighths<float>("x", rows * hidden);
  const auto weight = eighths<float>("weight", hidden);
  const auto d_y = eighths<float>("d_y", rows * hidden);
  Checked<float> y("y", rows * hidden);
  Checked<float> rms("rms", rows);
  Checked<float> d_x("d_x", rows * hidden);
  Checked<float> d_weight("d_weight", hidden);
  Checked<float> scratch("scratch", weight_parts(rows) * hidden);
  rms_norm<kChecked>({rows, hidden, source(x), source(weight), 1e-5, target(y), target(rms)}, {});
  rms_norm_backward<kChecked>({rows, hidden, source(d_y), source(x), source(weight), source(rms),
                               target(d_x), target(d_weight), Write::kOverwrite, scratch.data()},
                              {});
  const std::vector<double> values = values_of(x);
  const std::vector<double> found = values_of(rms);
  for (std::size_t row = 0; row < rows; ++row) {
    const double* first = values.data() + row * hidden;
    const double squares = std::inner_product(first, first + hidden, first, 0.0);
    ASSERT_NEAR(found[row], 1.0 / std::sqrt(squares / hidden + 1e-5), 1e-6);
  }
}

TEST_F(PlainOperations, RopeTurnsByRunsAndByLists) {
  const std::size_t seq = 10;
  const std::vector<int> positions = {0, 1, 2, 7, 8, 9, 10, 20, 21, 22};
  const auto table = eighths<double>("table", 23 * 3);
  const auto x = eighths<double>("x", 2 * seq * 2 * 6);
  Checked<double> by_runs("by runs", x.download());
  Checked<double> by_list("by list", x.download());
  const Checked<int> list("list", positions);
  Rope of{.batch = 2,
          .seq = seq,
          .heads = 2,
          .half = 3,
          .x = target(by_runs),
          .cosines = source(table),
          .sines = source(table),
          .sign = -1,
          .positions = runs_of(positions)};
  EXPECT_EQ(of.positions.runs, 3);
  rope<kChecked>(of, {});
  of.positions = {.list = list.data()};
  of.x = target(by_list);
  rope<kChecked>(of, {});
  EXPECT_EQ(by_runs.download(), by_list.download());
  EXPECT_NE(by_runs.download(), x.download());
}

TEST_F(PlainOperations, ManyRunsAreAList) {
  EXPECT_EQ(runs_of(std::vector<int>{0, 2, 4, 6, 8}).runs, 0);
  EXPECT_EQ(runs_of(std::vector<int>{}).runs, 0);
}

TEST_F(PlainOperations, RunsOfAnyLengthGiveEachRowItsPosition) {
  for (int runs = 1; runs <= kMostRuns; ++runs) {
    std::vector<int> positions;
    for (int run = 0; run < runs; ++run) {
      int position = positions.empty() ? 0 : positions.back() + between(2, 9);
      for (int length = between(1, 300); length > 0; --length) positions.push_back(position++);
    }
    const Positions found = runs_of(positions);
    ASSERT_EQ(found.runs, runs);
    int run = 0;
    int row = 0;
    for (const int position : positions) {
      if (row == found.ends[run]) ++run;
      ASSERT_EQ(row + found.offsets[run], position) << "row " << row;
      ++row;
    }
  }
}

TEST_F(PlainOperations, RowsAreLookedUpAndAddedInOrder) {
  const std::size_t hidden = 5;
  const Checked<int> ids("ids", std::vector<int>{3, 9, 4, 3, -1, 4, 3});
  const Embedding of{.tokens = 7, .hidden = hidden, .rows = 2, .first_token = 3, .ids = ids.data()};
  const auto part = eighths<float>("part", 2 * hidden);
  Checked<float> out("out", 7 * hidden);
  embedding<kChecked>(of, target(out), source(part), {});
  const std::vector<double> rows = values_of(part);
  const std::vector<double> found = values_of(out);
  EXPECT_EQ(found[2 * hidden], rows[hidden]);
  EXPECT_EQ(found[3 * hidden + 1], rows[1]);
  EXPECT_EQ(found[hidden], 0.0);
  EXPECT_EQ(found[4 * hidden], 0.0);

  Checked<float> d_part("d_part", part.download());
  const auto d_out = eighths<float>("d_out", 7 * hidden);
  Checked<int> scratch("scratch", 14);
  embedding_backward<kChecked>(of, target(d_part), source(d_out), scratch.data(), {});
  const std::vector<double> d = values_of(d_out);
  EXPECT_EQ(values_of(d_part)[0], rows[0] + d[0] + d[3 * hidden] + d[6 * hidden]);
  EXPECT_EQ(values_of(d_part)[hidden], rows[hidden] + d[2 * hidden] + d[5 * hidden]);
}

TEST_F(PlainOperations, AttentionOverDocumentsHasTheSumOfItsGradients) {
  const int seq = 70;
  const std::size_t elements = 2 * seq * 2 * 6;
  const auto query = eighths<double>("query", elements);
  const auto key = eighths<double>("key", elements / 2);
  const auto value = eighths<double>("value", elements / 2);
  std::vector<int> first_seen(2 * seq, 0);
  std::fill(first_seen.begin() + 40, first_seen.begin() + seq, 40);
  const Checked<int> documents("documents", first_seen);
  std::vector<int> counted(seq);
  std::iota(counted.begin(), counted.end(), 0);
  const AttentionShape shape{.batch = 2,
                             .query_seq = seq,
                             .key_seq = seq,
                             .heads = 2,
                             .kv_heads = 1,
                             .head_dim = 6,
                             .scale = 0.25,
                             .is_causal = true,
                             .query_positions = runs_of(counted),
                             .key_positions = runs_of(counted),
                             .first_seen = documents.data()};
  Checked<double> output("output", elements);
  Checked<double> sums("sums", 2 * 2 * seq);
  attention<kChecked>(
      {shape, source(query), source(key), source(value), target(output), target(sums)}, {});
  // The first query of a document sees itself alone.
  EXPECT_EQ(values_of(output)[40 * 12 + 6], values_of(value)[40 * 6]);

  const auto d_output = eighths<double>("d_output", elements);
  Checked<double> d_query("d_query", elements);
  Checked<double> d_key("d_key", elements / 2);
  Checked<double> d_value("d_value", elements / 2);
  Checked<double> delta("delta", 2 * 2 * seq);
  attention_backward<kChecked>(
      {shape, source(d_output), source(query), source(key), source(value), source(output),
       source(sums), target(d_query), target(d_key), target(d_value), target(delta)},
      {});
  // Shares add up to 1: all values' gradients together are all outputs' gradients.
  const std::vector<double> given = values_of(d_output);
  const std::vector<double> found = values_of(d_value);
  EXPECT_NEAR(std::accumulate(found.begin(), found.end(), 0.0),
              std::accumulate(given.begin(), given.end(), 0.0), 1e-10);
}

}  // namespace operations_test
}  // namespace ultra::kernels::generic::test
