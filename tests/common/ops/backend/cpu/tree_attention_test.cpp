// Covers: common/ops/backend/cpu/tree/tree_attention.hpp, common/ops/backend/cpu/attention_rows.hpp
// Attention by trees: a part of the queries with all keys has the bits of the whole; and numbers of two
// bytes are summed in f32.

#include "common/ops/attention.hpp"
#include "common/ops/cross_entropy.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/embedding.hpp"
#include "common/ops/rms_norm.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

std::vector<std::int32_t> places(Range range) {
  std::vector<std::int32_t> all;
  for (std::size_t i = range.begin; i < range.end; ++i) all.push_back(static_cast<int>(i));
  return all;
}

class TreeAttentionTest : public test::RandomTest,
                          public ::testing::WithParamInterface<DeviceKind> {
 protected:
  Tensor numbers(const Shape& shape, DType dtype = DType::kF32) {
    return random.tensor(trees, shape, DType::kF32, 1.0).to(dtype);
  }
  /// bf16 numbers, and the same in f32.
  std::pair<Tensor, Tensor> short_and_wide(const Shape& shape) {
    const Tensor numbers_of_two_bytes = numbers(shape, DType::kBF16);
    return {numbers_of_two_bytes, numbers_of_two_bytes.to(DType::kF32)};
  }
  static Tensor rounded(const Tensor& wide) { return wide.to(DType::kBF16); }

  Device trees = Device::create(GetParam(), 0, MatmulLibrary::kTrees);
};

TEST_P(TreeAttentionTest, APartOfTheQueriesHasTheBitsOfTheWhole) {
  for (int round = 0; round < 20; ++round) {
    const std::size_t parts = random.pick({2U, 4U});
    const std::size_t seq = parts * random.pick({9U, 16U, 17U, 32U});
    const std::size_t kv_heads = random.between(1, 2);
    const Shape queries{1, seq, kv_heads * random.between(1, 3), random.between(1, 24)};
    const Shape keys{1, seq, kv_heads, queries[3]};
    const Tensor query = numbers(queries);
    const Tensor d_output = numbers(queries);
    const Tensor key = numbers(keys);
    const Tensor value = numbers(keys);
    std::vector<std::int32_t> begins;  // of documents
    for (std::size_t i = 0, begin = 0; i < seq; ++i) {
      if (random.between(0, 9) == 0) begin = i;
      begins.push_back(static_cast<std::int32_t>(begin));
    }
    const auto attend = [&](Range part) {
      const std::vector<std::int32_t> positions = places(part);
      const AttentionOptions options{
          .mask = Mask::kCausal,
          .scale = 0.3,
          .query_positions = positions,
          .first_seen = std::span(begins).subspan(part.begin, part.size())};
      const Tensor own = query.slice(1, part);
      const auto [output, log_sum_exp] = attention(own, key, value, options);
      return std::pair(output, attention_backward(d_output.slice(1, part), own, key, value, output,
                                                  log_sum_exp, options));
    };
    const auto [output, all] = attend({0, seq});
    std::vector<Tensor> d_keys;
    std::vector<Tensor> d_values;
    for (std::size_t i = 0; i < parts; ++i) {
      const Range part{i * seq / parts, (i + 1) * seq / parts};
      const auto [own_output, own] = attend(part);
      EXPECT_TRUE(test::all_equal(own_output, output.slice(1, part).contiguous()));
      EXPECT_TRUE(test::all_equal(own.d_query, all.d_query.slice(1, part).contiguous()));
      d_keys.push_back(own.d_key);
      d_values.push_back(own.d_value);
    }
    const auto joined = [](std::vector<Tensor> nodes) {
      while (nodes.size() > 1) {
        for (std::size_t i = 0; i < nodes.size() / 2; ++i) {
          nodes[i] = add(nodes[2 * i], nodes[2 * i + 1]);
        }
        nodes.resize(nodes.size() / 2);
      }
      return nodes.front();
    };
    EXPECT_TRUE(test::all_equal(joined(d_keys), all.d_key));
    EXPECT_TRUE(test::all_equal(joined(d_values), all.d_value));
  }
}

TEST_P(TreeAttentionTest, OfTwoBytesIsThatOfF32Rounded) {
  const std::size_t seq = random.between(1, 90);
  const auto [query, wide_query] = short_and_wide({2, seq, 4, 8});
  const auto [key, wide_key] = short_and_wide({2, seq, 2, 8});
  const auto [value, wide_value] = short_and_wide({2, seq, 2, 8});
  const auto [d_output, wide_d_output] = short_and_wide({2, seq, 4, 8});
  const AttentionOptions options{.mask = Mask::kCausal, .scale = 0.3};
  const auto [output, log_sum_exp] = attention(query, key, value, options);
  const auto wide = attention(wide_query, wide_key, wide_value, options);
  EXPECT_TRUE(test::all_equal(output, rounded(wide.output)));
  EXPECT_TRUE(test::all_equal(log_sum_exp, wide.log_sum_exp));
  const auto own = attention_backward(d_output, query, key, value, output, log_sum_exp, options);
  const auto wide_own = attention_backward(wide_d_output, wide_query, wide_key, wide_value,
                                           output.to(DType::kF32), log_sum_exp, options);
  EXPECT_TRUE(test::all_equal(own.d_query, rounded(wide_own.d_query)));
  EXPECT_TRUE(test::all_equal(own.d_key, rounded(wide_own.d_key)));
  EXPECT_TRUE(test::all_equal(own.d_value, rounded(wide_own.d_value)));
}

TEST_P(TreeAttentionTest, ProductsOfTwoBytesAreThoseOfF32Rounded) {
  const std::size_t k = random.between(1, 700);
  const auto [a, wide_a] = short_and_wide({random.between(1, 20), k});
  const auto [b, wide_b] = short_and_wide({random.between(1, 20), k});
  const Tensor wide = matmul(wide_a, Transpose::kNo, wide_b, Transpose::kYes);
  EXPECT_TRUE(test::all_equal(matmul(a, Transpose::kNo, b, Transpose::kYes), rounded(wide)));
  const Tensor sums = matmul(a, Transpose::kNo, b, Transpose::kYes, DType::kF32);
  EXPECT_TRUE(test::all_equal(sums, wide));
}

TEST_P(TreeAttentionTest, GradientsOfNormsAndTablesOfTwoBytesAreThoseOfF32) {
  const std::size_t rows = random.between(1, 80);
  const auto [x, wide_x] = short_and_wide({rows, 12});
  const auto [d_y, wide_d_y] = short_and_wide({rows, 12});
  const auto [weight, wide_weight] = short_and_wide({12});
  const Tensor roots = rms_norm(wide_x, wide_weight, 1e-5).reciprocal_rms;
  const Tensor sum = Tensor::zeros(trees, {12}, DType::kF32);
  const Tensor wide_sum = sum.clone();
  const Tensor d_x = rms_norm_backward(d_y, x, weight, roots, sum, Write::kAccumulate);
  const Tensor wide_d_x =
      rms_norm_backward(wide_d_y, wide_x, wide_weight, roots, wide_sum, Write::kAccumulate);
  EXPECT_TRUE(test::all_equal(d_x, rounded(wide_d_x)));
  EXPECT_TRUE(test::all_equal(sum, wide_sum));

  const Tensor tokens = random.tokens(trees, {1, rows}, 5);
  const Tensor table = Tensor::zeros(trees, {5, 12}, DType::kF32);
  const Tensor wide_table = table.clone();
  embedding_backward_into(table, d_y.view({1, rows, 12}), tokens);
  embedding_backward_into(wide_table, wide_d_y.view({1, rows, 12}), tokens);
  EXPECT_TRUE(test::all_equal(table, wide_table));
}

TEST_P(TreeAttentionTest, LossesOfTwoBytesAreThoseOfF32) {
  const std::size_t rows = random.between(1, 20);
  const auto [logits, wide_logits] = short_and_wide({rows, 40});
  const Tensor targets = random.tokens(trees, {rows}, 40);
  EXPECT_EQ(cross_entropy_into_gradient(logits, targets, 3.0),
            cross_entropy_into_gradient(wide_logits, targets, 3.0));
  EXPECT_TRUE(test::all_equal(logits, rounded(wide_logits)));
  EXPECT_EQ(sum_of_squares(logits), sum_of_squares(logits.to(DType::kF32)));
}

INSTANTIATE_TEST_SUITE_P(On, TreeAttentionTest,
                         ::testing::Values(DeviceKind::kCpu, DeviceKind::kEmulated),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

}  // namespace
}  // namespace ultra::ops
