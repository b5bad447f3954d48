// Attention of bf16 and f16 against plain loops in f64 on the same numbers: what it sums is as near
// as in f32, and its results are these sums, rounded.
#include "common/ops/attention.hpp"
#include "tests/common/ops/attention_reference.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

class HalfAttentionTest : public test::RandomTest {
 protected:
  /// Heads of 8 numbers in long sequences are left out on devices: these multiply probabilities of
  /// two bytes there, with a tolerance of their own (kernel_backend_test.cpp).
  [[nodiscard]] AttentionCase draw(DType dtype, std::size_t seq) {
    const std::size_t kv_heads = random.between(1, 2);
    const std::size_t heads = kv_heads * random.between(1, 3);
    const bool is_short = device.kind() == DeviceKind::kCpu || seq < 64;
    const std::size_t head_dim = random.between(1, is_short ? 9 : 7);
    const std::size_t batch = random.between(1, 2);
    AttentionCase in;
    in.query = random.tensor(device, {batch, seq, heads, head_dim}, dtype);
    in.key = random.tensor(device, {batch, seq, kv_heads, head_dim}, dtype);
    in.value = random.tensor(device, {batch, seq, kv_heads, head_dim}, dtype);
    in.mask = random.pick({Mask::kNone, Mask::kCausal});
    in.scale = 1.0 / std::sqrt(count_of(head_dim));
    if (random.between(0, 1) == 1) {  // two documents in the last sequence
      in.first_seen.assign(batch * seq, 0);
      const std::size_t begin = random.between(0, seq - 1);
      for (std::size_t i = begin; i < seq; ++i) {
        in.first_seen[(batch - 1) * seq + i] = static_cast<std::int32_t>(begin);
      }
    }
    return in;
  }

  /// The same numbers in f32, whose tolerances hold for sums in f32.
  [[nodiscard]] static AttentionCase widened(AttentionCase in) {
    for (Tensor* x : {&in.query, &in.key, &in.value}) *x = x->to(DType::kF32);
    return in;
  }

  void check(const AttentionCase& in) {
    const DType dtype = in.query.dtype();
    SCOPED_TRACE(in.query.shape().str());
    AttentionOptions wide_sums = in.options();
    wide_sums.sums = AttentionSums::kWide;
    const AttentionCase same = widened(in);
    const AttentionResult wide = attention(in.query, in.key, in.value, wide_sums);
    const NaiveForward expected = naive_attention(same);
    EXPECT_EQ(wide.output.dtype(), DType::kF32);
    EXPECT_EQ(wide.log_sum_exp.dtype(), DType::kF32);
    EXPECT_TRUE(all_near(wide.output, expected.output, expected.output_tolerance));
    EXPECT_TRUE(all_near(wide.log_sum_exp, expected.log_sum_exp, expected.log_tolerance));
    const AttentionResult rounded = attention(in.query, in.key, in.value, in.options());
    EXPECT_TRUE(test::all_equal(rounded.output, wide.output.to(dtype)));
    EXPECT_TRUE(test::all_equal(rounded.log_sum_exp, wide.log_sum_exp));

    const Tensor d_output = random.tensor(device, in.query.shape(), dtype);
    const auto differentiate = [&](const AttentionOptions& options) {
      return attention_backward(d_output, in.query, in.key, in.value, wide.output, wide.log_sum_exp,
                                options);
    };
    const AttentionGradients sums = differentiate(wide_sums);
    const NaiveBackward d = naive_attention_backward(same, d_output.to(DType::kF32));
    EXPECT_TRUE(all_near(sums.d_query, d.d_query, d.query_tolerance));
    EXPECT_TRUE(all_near(sums.d_key, d.d_key, d.key_tolerance));
    EXPECT_TRUE(all_near(sums.d_value, d.d_value, d.value_tolerance));
    const AttentionGradients gradients = differentiate(in.options());
    EXPECT_TRUE(test::all_equal(gradients.d_query, sums.d_query.to(dtype)));
    EXPECT_TRUE(test::all_equal(gradients.d_key, sums.d_key.to(dtype)));
    EXPECT_TRUE(test::all_equal(gradients.d_value, sums.d_value.to(dtype)));
  }
};

TEST_F(HalfAttentionTest, SumsAsInF32AndRoundsOnce) {
  for (int round = 0; round < 20; ++round) {
    check(draw(random.pick({DType::kBF16, DType::kF16}), random.between(1, 9)));
  }
  check(draw(DType::kBF16, 130));  // several blocks of queries
}

TEST_F(HalfAttentionTest, TypesThatDoNotMixAreRefused) {
  const AttentionCase in = draw(DType::kBF16, 3);
  EXPECT_THROW(static_cast<void>(attention(in.query, in.key, in.value.to(DType::kF32), {})),
               ShapeError);
  const auto [output, log_sum_exp] = attention(in.query, in.key, in.value, {});
  EXPECT_THAT(message_of<ShapeError>([&] {
                static_cast<void>(attention_backward(output, in.query, in.key, in.value, output,
                                                     log_sum_exp.to(DType::kBF16), {}));
              }),
              HasSubstr("log_sum_exp of attention_backward: expected"));
}

}  // namespace
}  // namespace ultra::ops
