// Several documents in one sequence: each query sees the keys of its own only.
//
// Covers: common/ops/attention.hpp

#include "common/ops/attention.hpp"
#include "tests/common/ops/attention_reference.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

class AttentionDocumentsTest : public test::RandomTest {
 protected:
  /// Where the document of each token begins; every token begins one with the same chance.
  [[nodiscard]] std::vector<std::int32_t> cut(std::size_t seq, std::size_t mean) {
    std::vector<std::int32_t> begins(seq, 0);
    for (std::size_t i = 1; i < seq; ++i) {
      begins[i] = random.between(1, mean) == 1 ? static_cast<std::int32_t>(i) : begins[i - 1];
    }
    return begins;
  }

  /// Two sequences, each with documents of its own.
  [[nodiscard]] AttentionCase draw(DType dtype) {
    const std::size_t seq = random.pick({random.between(1, 20), random.between(500, 1100)});
    AttentionCase in;
    in.query = random.tensor(device, {2, seq, 4, 6}, dtype);
    in.key = random.tensor(device, {2, seq, 2, 6}, dtype);
    in.value = random.tensor(device, {2, seq, 2, 6}, dtype);
    in.mask = random.pick({Mask::kNone, Mask::kCausal});
    in.scale = 1.0 / std::sqrt(6.0);
    const std::size_t mean = random.pick({1U, 3U, 70U, 600U});
    for (int sequence = 0; sequence < 2; ++sequence) {
      const auto begins = cut(seq, mean);
      in.first_seen.insert(in.first_seen.end(), begins.begin(), begins.end());
    }
    return in;
  }
};

TEST_F(AttentionDocumentsTest, ForwardEqualsPlainLoops) {
  for (int round = 0; round < 6; ++round) {
    const AttentionCase in = draw(random.pick({DType::kF32, DType::kF64}));
    const AttentionResult result = attention(in.query, in.key, in.value, in.options());
    const NaiveForward expected = naive_attention(in);
    EXPECT_TRUE(all_near(result.output, expected.output, expected.output_tolerance));
    EXPECT_TRUE(all_near(result.log_sum_exp, expected.log_sum_exp, expected.log_tolerance));
  }
}

TEST_F(AttentionDocumentsTest, BackwardEqualsPlainLoops) {
  for (int round = 0; round < 4; ++round) {
    const AttentionCase in = draw(random.pick({DType::kF32, DType::kF64}));
    const Tensor d_output = random.tensor(device, in.query.shape(), in.query.dtype());
    const AttentionResult forward = attention(in.query, in.key, in.value, in.options());
    const AttentionGradients gradients = attention_backward(
        d_output, in.query, in.key, in.value, forward.output, forward.log_sum_exp, in.options());
    const NaiveBackward expected = naive_attention_backward(in, d_output);
    EXPECT_TRUE(all_near(gradients.d_query, expected.d_query, expected.query_tolerance));
    EXPECT_TRUE(all_near(gradients.d_key, expected.d_key, expected.key_tolerance));
    EXPECT_TRUE(all_near(gradients.d_value, expected.d_value, expected.value_tolerance));
  }
}

TEST_F(AttentionDocumentsTest, OneDocumentIsNoDocument) {
  AttentionCase in = draw(DType::kF32);
  in.first_seen.assign(in.first_seen.size(), 0);
  const AttentionResult with = attention(in.query, in.key, in.value, in.options());
  in.first_seen.clear();
  const AttentionResult without = attention(in.query, in.key, in.value, in.options());
  EXPECT_TRUE(test::all_equal(with.output, without.output));
  EXPECT_TRUE(test::all_equal(with.log_sum_exp, without.log_sum_exp));
}

TEST_F(AttentionDocumentsTest, AQueryThatSeesNoKeyHasOutputZero) {
  AttentionCase in = draw(DType::kF64);
  in.mask = Mask::kCausal;
  in.first_seen.assign(in.first_seen.size(), static_cast<std::int32_t>(in.query.size(1)));
  const AttentionResult result = attention(in.query, in.key, in.value, in.options());
  EXPECT_EQ(test::largest_magnitude(result.output.to_vector()), 0.0);
  for (const double log : result.log_sum_exp.to_vector()) {
    EXPECT_EQ(log, -std::numeric_limits<double>::infinity());
  }
}

TEST_F(AttentionDocumentsTest, BeginsThatDoNotFitAreRefused) {
  AttentionCase in = draw(DType::kF64);
  in.first_seen.push_back(0);
  const std::string message = test::message_of<ShapeError>(
      [&] { static_cast<void>(attention(in.query, in.key, in.value, in.options())); });
  EXPECT_NE(message.find("the first key that each of 2 x"), std::string::npos) << message;
}

}  // namespace
}  // namespace ultra::ops
