// Contract of exercise 06.1: softmax over all keys, from two partial ones.
#include "chapters/06_context_parallel/merge_attention.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::context_parallel {
namespace {

using ultra::test::all_equal;
using ultra::test::all_near;
using ultra::test::rounding_bound;

constexpr const char* kWeights =
    "Hint: each part has divided by its own sum of exponentials: it counts exp(its log-sum-exp - "
    "that of both). Rows are [batch, seq, heads] in the output, [batch, heads, seq] in the "
    "log-sum-exp.";
constexpr const char* kLogSumExp =
    "Hint: the next part is merged into this one: it needs the log-sum-exp over the keys of both.";
constexpr const char* kNothing =
    "Hint: a log-sum-exp of -infinity is a part without keys; infinity minus infinity is NaN.";
constexpr const char* kOverflow =
    "Hint: exp of a log-sum-exp overflows: subtract the higher of the two first.";

class MergeAttention : public ultra::test::RandomTest {
 protected:
  struct Case {
    Tensor query, key, value;
    ops::AttentionOptions options;

    [[nodiscard]] ops::AttentionResult over(Range keys) const {
      std::vector<std::int32_t> positions(keys.size());
      std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(keys.begin));
      ops::AttentionOptions part = options;
      part.key_positions = positions;
      return ops::attention(query, key.slice(1, keys).contiguous(),
                            value.slice(1, keys).contiguous(), part);
    }
  };
  Case draw(DType dtype, double scale) {
    const std::size_t seq = random.between(2, 30);
    return {
        .query = random.tensor(device, {2, seq, 4, 6}, dtype),
        .key = random.tensor(device, {2, seq, 2, 6}, dtype),
        .value = random.tensor(device, {2, seq, 2, 6}, dtype),
        .options = {.mask = random.pick({ops::Mask::kNone, ops::Mask::kCausal}), .scale = scale}};
  }
  void expect_whole(const Case& c, const ops::AttentionResult& merged, double scale) const {
    const std::size_t seq = c.key.size(1);
    const ops::AttentionResult whole = c.over({0, seq});
    const DType dtype = c.query.dtype();
    const double tolerance = rounding_bound(dtype, 400 + 40 * scale, 8.0);
    EXPECT_TRUE(all_near(merged.output, whole.output, tolerance)) << kWeights;
    EXPECT_TRUE(all_near(merged.log_sum_exp, whole.log_sum_exp,
                         rounding_bound(dtype, 100, 30 * (1 + scale))))
        << kLogSumExp;
  }
};

TEST_F(MergeAttention, TwoPartsAreTheWholeInAnyOrder) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    for (int round = 0; round < 10; ++round) {
      const Case c = draw(dtype, 0.5);
      const std::size_t seq = c.key.size(1);
      const std::size_t cut = random.between(1, seq - 1);
      for (const bool late_first : {false, true}) {
        const ops::AttentionResult early = c.over({0, cut});
        const ops::AttentionResult late = c.over({cut, seq});
        const ops::AttentionResult& into = late_first ? late : early;
        merge_attention(into, late_first ? early : late);
        expect_whole(c, into, 0.5);
      }
    }
  }
}

TEST_F(MergeAttention, ManyPartsOneByOneFromNothing) {
  const Case c = draw(DType::kF64, 0.5);
  const ops::AttentionResult all{Tensor::zeros(device, c.query.shape(), DType::kF64),
                                 Tensor::empty(device, {2, 4, c.query.size(1)}, DType::kF64)};
  all.log_sum_exp.fill(-std::numeric_limits<double>::infinity());
  for (std::size_t key = c.key.size(1); key-- > 0;) merge_attention(all, c.over({key, key + 1}));
  expect_whole(c, all, 0.5);
}

TEST_F(MergeAttention, NothingSeenChangesNothing) {
  const Case c = draw(DType::kF32, 0.5);
  const ops::AttentionResult some = c.over({0, 1});
  const std::vector<double> output = some.output.to_vector();
  const ops::AttentionResult nothing{Tensor::zeros(device, c.query.shape(), DType::kF32),
                                     some.log_sum_exp.clone()};
  nothing.log_sum_exp.fill(-std::numeric_limits<double>::infinity());
  merge_attention(some, nothing);
  EXPECT_TRUE(all_equal(some.output, output)) << kNothing;
  merge_attention(nothing,
                  ops::AttentionResult{nothing.output.clone(), nothing.log_sum_exp.clone()});
  EXPECT_EQ(ultra::test::largest_magnitude(nothing.output.to_vector()), 0.0) << kNothing;
  for (const double log : nothing.log_sum_exp.to_vector()) {
    EXPECT_EQ(log, -std::numeric_limits<double>::infinity()) << kNothing;
  }
}

TEST_F(MergeAttention, LargeScoresDoNotOverflow) {
  for (const double scale : {1000.0, -1000.0}) {
    const Case c = draw(DType::kF32, scale);
    const std::size_t cut = random.between(1, c.key.size(1) - 1);
    const ops::AttentionResult merged = c.over({0, cut});
    merge_attention(merged, c.over({cut, c.key.size(1)}));
    // Scores of some thousand have few digits left behind the point.
    const ops::AttentionResult whole = c.over({0, c.key.size(1)});
    EXPECT_TRUE(all_near(merged.output, whole.output, 0.01)) << kOverflow;
    EXPECT_TRUE(all_near(merged.log_sum_exp, whole.log_sum_exp, 0.01)) << kOverflow;
  }
}

}  // namespace
}  // namespace ultra::context_parallel
