#include "common/ops/attention.hpp"

#include "tests/common/ops/attention_reference.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/finite_difference.hpp"

namespace ultra::ops {
namespace {

constexpr double kNoKey = -std::numeric_limits<double>::infinity();

AttentionResult attend(const AttentionCase& in) {
  return attention(in.query, in.key, in.value, in.options());
}

AttentionGradients differentiate(const AttentionCase& in, const Tensor& d_output,
                                 const AttentionResult& forward) {
  return attention_backward(d_output, in.query, in.key, in.value, forward.output,
                            forward.log_sum_exp, in.options());
}

class AttentionTest : public test::RandomTest {
 protected:
  [[nodiscard]] AttentionCase draw(DType dtype, std::size_t query_seq, std::size_t key_seq) {
    const std::size_t kv_heads = random.between(1, 2);
    const std::size_t heads = kv_heads * random.between(1, 3);
    const std::size_t head_dim = random.between(1, 9);
    const std::size_t batch = random.between(1, 2);
    AttentionCase in;
    in.query = random.tensor(device, {batch, query_seq, heads, head_dim}, dtype);
    in.key = random.tensor(device, {batch, key_seq, kv_heads, head_dim}, dtype);
    in.value = random.tensor(device, {batch, key_seq, kv_heads, head_dim}, dtype);
    in.mask = random.pick({Mask::kNone, Mask::kCausal});
    in.scale = 1.0 / std::sqrt(count_of(head_dim));
    return in;
  }

  [[nodiscard]] std::vector<std::int32_t> ascending(std::size_t count) {
    std::vector<std::int32_t> positions(count);
    std::int32_t at = static_cast<std::int32_t>(random.between(0, 5));
    for (std::int32_t& position : positions) {
      position = at;
      at += static_cast<std::int32_t>(random.between(1, 3));
    }
    return positions;
  }

  void check_forward(const AttentionCase& in) {
    SCOPED_TRACE("query " + in.query.shape().str() + ", key " + in.key.shape().str());
    const AttentionResult result = attend(in);
    const NaiveForward expected = naive_attention(in);
    EXPECT_EQ(result.log_sum_exp.shape(),
              (Shape{in.query.size(0), in.query.size(2), in.query.size(1)}));
    EXPECT_TRUE(all_near(result.output, expected.output, expected.output_tolerance));
    EXPECT_TRUE(all_near(result.log_sum_exp, expected.log_sum_exp, expected.log_tolerance));
  }

  void check_backward(const AttentionCase& in) {
    SCOPED_TRACE("query " + in.query.shape().str() + ", key " + in.key.shape().str());
    const Tensor d_output = random.tensor(device, in.query.shape(), in.query.dtype());
    const auto [d_query, d_key, d_value] = differentiate(in, d_output, attend(in));
    const NaiveBackward expected = naive_attention_backward(in, d_output);
    EXPECT_TRUE(all_near(d_query, expected.d_query, expected.query_tolerance));
    EXPECT_TRUE(all_near(d_key, expected.d_key, expected.key_tolerance));
    EXPECT_TRUE(all_near(d_value, expected.d_value, expected.value_tolerance));
  }
};

TEST_F(AttentionTest, EqualsTheWholeSoftmaxOnSmallShapes) {
  for (int round = 0; round < 30; ++round) {
    const DType dtype = random.pick({DType::kF32, DType::kF64});
    AttentionCase in = draw(dtype, random.between(1, 9), random.between(1, 9));
    if (round % 3 == 0) in.query_positions = ascending(in.query.size(1));
    if (round % 2 == 0) in.key_positions = ascending(in.key.size(1));
    check_forward(in);
    check_backward(in);
  }
}

// 64 queries and 512 keys are processed at a time: these shapes have several blocks and ragged ends.
TEST_F(AttentionTest, EqualsTheWholeSoftmaxAcrossBlocks) {
  for (const DType dtype : test::kFloatDTypes) {
    for (const auto& [query_seq, key_seq] :
         {std::pair<std::size_t, std::size_t>{64, 512}, {65, 513}, {130, 7}, {3, 1100}}) {
      AttentionCase in = draw(dtype, query_seq, key_seq);
      in.mask = Mask::kNone;
      check_forward(in);
      check_backward(in);
      in.mask = Mask::kCausal;
      in.query_positions.resize(query_seq);  // the last queries of the sequence
      std::iota(in.query_positions.begin(), in.query_positions.end(),
                static_cast<std::int32_t>(key_seq > query_seq ? key_seq - query_seq : 0));
      check_forward(in);
      check_backward(in);
    }
    AttentionCase causal = draw(dtype, 600, 600);
    causal.mask = Mask::kCausal;
    check_forward(causal);
    check_backward(causal);
  }
}

TEST_F(AttentionTest, LargeScoresDoNotOverflow) {
  for (const DType dtype : test::kFloatDTypes) {
    AttentionCase in = draw(dtype, 5, 7);
    in.mask = Mask::kNone;
    in.scale = 1e4;
    const AttentionResult result = attend(in);
    for (const double x : result.output.to_vector()) EXPECT_TRUE(std::isfinite(x));
    check_forward(in);
  }
}

TEST_F(AttentionTest, AQueryThatSeesNoKeyGivesZeroAndMinusInfinity) {
  for (const DType dtype : test::kFloatDTypes) {
    AttentionCase in = draw(dtype, 3, 4);
    in.mask = Mask::kCausal;
    in.query_positions = {0, 4, 5};
    in.key_positions = {5, 6, 7, 8};
    const AttentionResult result = attend(in);
    for (std::size_t i : {0U, 1U}) {
      EXPECT_THAT(result.output.slice(1, {i, i + 1}).to_vector(), Each(0.0));
      EXPECT_THAT(result.log_sum_exp.slice(2, {i, i + 1}).to_vector(), Each(kNoKey));
    }
    check_forward(in);
    check_backward(in);
    in.key_positions = {6, 7, 8, 9};  // no query sees any key
    check_forward(in);
    check_backward(in);
  }
}

TEST_F(AttentionTest, EmptySequencesAreLegal) {
  AttentionCase no_keys = draw(DType::kF32, 3, 0);
  check_forward(no_keys);
  check_backward(no_keys);
  check_forward(draw(DType::kF64, 0, 3));
  check_backward(draw(DType::kF64, 0, 3));
}

TEST_F(AttentionTest, GradientsMatchFiniteDifferences) {
  for (int round = 0; round < 6; ++round) {
    AttentionCase in = draw(DType::kF64, random.between(1, 7), random.between(1, 7));
    if (round % 2 == 0) in.query_positions = ascending(in.query.size(1));
    const Tensor d_output = random.tensor(device, in.query.shape(), DType::kF64);
    const auto f = [&] { return test::inner_product(d_output, attend(in).output); };
    const auto [d_query, d_key, d_value] = differentiate(in, d_output, attend(in));
    EXPECT_TRUE(test::gradients_match(
        random, f,
        {{"query", in.query, d_query}, {"key", in.key, d_key}, {"value", in.value, d_value}}))
        << in.query.shape().str() << " " << in.key.shape().str();
  }
}

TEST_F(AttentionTest, TheScratchDoesNotGrowWithTheSequence) {
  const auto scratch = [&](std::size_t seq) {
    const Tensor x = random.tensor(device, {1, seq, 1, 4}, DType::kF32);
    device.reset_memory_peaks();
    const std::size_t before = device.memory().current().total();
    const AttentionResult result = attention(x, x, x, {});
    const std::size_t forward = device.memory().peak_total().bytes - before -
                                result.output.nbytes() - result.log_sum_exp.nbytes();
    device.reset_memory_peaks();
    const std::size_t held = device.memory().current().total();
    static_cast<void>(attention_backward(x, x, x, x, result.output, result.log_sum_exp, {}));
    return std::pair(forward, device.memory().peak_total().bytes - held - 3 * x.nbytes());
  };
  const auto of_short = scratch(512);
  const auto of_long = scratch(1024);
  if (has_streams(device.kind())) {  // a number or a row for each query
    EXPECT_LE(of_long.first, 2 * of_short.first);
    EXPECT_LE(of_long.second, 2 * of_short.second);
  } else {
    EXPECT_EQ(of_long, of_short);
  }
  EXPECT_LT(of_long.first, 1024U * 1024U * 4U / 4U);  // far from seq x seq
}

TEST_F(AttentionTest, BadShapesAreNamed) {
  const Tensor q = Tensor::zeros(device, {1, 4, 3, 2}, DType::kF32);
  const auto fails = [&](const Tensor& query, const Tensor& key, const Tensor& value,
                         const AttentionOptions& options = {}) {
    return message_of<ShapeError>([&] { return attention(query, key, value, options); });
  };
  const Tensor two_heads = Tensor::zeros(device, {1, 4, 2, 2}, DType::kF32);
  EXPECT_THAT(fails(q, two_heads, two_heads),
              HasSubstr("3 query heads are no multiple of 2 key/value heads"));
  EXPECT_THAT(fails(q, q, q.slice(1, {0, 2}).clone()), HasSubstr("do not fit each other"));
  EXPECT_THAT(fails(q, q.to(DType::kF64), q.to(DType::kF64)), HasSubstr("do not fit"));
  EXPECT_THAT(fails(q.view({4, 6}), q, q), HasSubstr("[4, 6]"));
  EXPECT_THAT(fails(q.transpose(1, 2), q, q), HasSubstr("contiguous"));
  EXPECT_THAT(fails(q, q, Tensor()), HasSubstr("contiguous"));
  const std::vector<std::int32_t> descending = {0, 2, 1, 3};
  EXPECT_THAT(fails(q, q, q, {.query_positions = descending}),
              HasSubstr("4 ascending query positions"));
  EXPECT_THAT(fails(q, q, q, {.key_positions = std::span(descending).first(2)}),
              HasSubstr("expected 4 ascending key positions, found 2"));
}

TEST_F(AttentionTest, BackwardChecksItsShapesToo) {
  const Tensor q = Tensor::zeros(device, {1, 4, 1, 2}, DType::kF32);
  const AttentionResult forward = attention(q, q, q, {});
  const Tensor wrong = Tensor::zeros(device, {1, 4, 4}, DType::kF32);
  const auto fails = [&](const Tensor& d_o, const Tensor& o, const Tensor& lse) {
    return message_of<ShapeError>([&] { return attention_backward(d_o, q, q, q, o, lse, {}); });
  };
  EXPECT_THAT(fails(wrong, q, forward.log_sum_exp), HasSubstr("d_output of attention_backward"));
  EXPECT_THAT(fails(q, wrong, forward.log_sum_exp), HasSubstr("output of attention_backward"));
  EXPECT_THAT(fails(q, q, wrong), HasSubstr("log_sum_exp of attention_backward"));
}

}  // namespace
}  // namespace ultra::ops
