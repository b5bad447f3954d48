// Attention where queries see some of the keys: documents, and ranges of positions.
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

  /// Two sequences, each with documents of its own, or a window, or both.
  [[nodiscard]] AttentionCase draw(DType dtype) {
    const std::size_t seq = random.pick({random.between(1, 20), random.between(500, 1100)});
    AttentionCase in;
    in.query = random.tensor(device, {2, seq, 4, 6}, dtype);
    in.key = random.tensor(device, {2, seq, 2, 6}, dtype);
    in.value = random.tensor(device, {2, seq, 2, 6}, dtype);
    in.mask = random.pick({Mask::kNone, Mask::kCausal});
    in.scale = 1.0 / std::sqrt(6.0);
    const std::size_t mean = random.pick({1U, 3U, 70U, 600U});
    if (random.pick({true, false})) in.window = random.between(1, seq + 1);
    if (in.window > 0 && random.pick({true, false})) return in;
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

// So it costs nothing, either: kernels that know no window compute it.
TEST_F(AttentionDocumentsTest, AWindowOfAllTokensIsNoWindow) {
  const std::vector<std::int32_t> positions = {3, 4, 7};
  EXPECT_TRUE(first_in_window({}, positions, 8, 2).empty());
  EXPECT_TRUE(first_in_window({}, positions, 0, 2).empty());
  EXPECT_EQ(first_in_window({}, positions, 7, 2), (std::vector<std::int32_t>{0, 0, 1, 0, 0, 1}));
  const std::vector<std::int32_t> documents = {0, 4, 4};
  EXPECT_EQ(first_in_window(documents, positions, 1, 1), (std::vector<std::int32_t>{3, 4, 7}));
  EXPECT_EQ(first_in_window(documents, positions, 2, 1), (std::vector<std::int32_t>{2, 4, 6}));
}

TEST_F(AttentionDocumentsTest, BeginsThatDoNotFitAreRefused) {
  AttentionCase in = draw(DType::kF64);
  in.first_seen.assign(2 * in.query.size(1) + 1, 0);
  const std::string message = test::message_of<ShapeError>(
      [&] { static_cast<void>(attention(in.query, in.key, in.value, in.options())); });
  EXPECT_NE(message.find("the first key that each of 2 x"), std::string::npos) << message;
}

}  // namespace
}  // namespace ultra::ops
