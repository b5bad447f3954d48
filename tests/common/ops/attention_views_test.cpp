// Attention where queries see some of the keys: documents, and ranges of positions.
// Covers: common/ops/attention.hpp

#include "common/ops/attention.hpp"
#include "common/ops/elementwise.hpp"
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

TEST_F(AttentionDocumentsTest, OneDocumentIsNoDocument) {
  AttentionCase in = draw(DType::kF32);
  in.window = 0;
  in.first_seen.assign(2 * in.query.size(1), 0);
  const AttentionResult with = attention(in.query, in.key, in.value, in.options());
  in.first_seen.clear();
  const AttentionResult without = attention(in.query, in.key, in.value, in.options());
  EXPECT_TRUE(test::all_equal(with.output, without.output));
  EXPECT_TRUE(test::all_equal(with.log_sum_exp, without.log_sum_exp));
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

TEST_F(AttentionDocumentsTest, AQueryThatSeesNoKeyHasOutputZero) {
  AttentionCase in = draw(DType::kF64);
  in.mask = Mask::kCausal;
  in.first_seen.assign(2 * in.query.size(1), static_cast<std::int32_t>(in.query.size(1)));
  const AttentionResult result = attention(in.query, in.key, in.value, in.options());
  EXPECT_EQ(test::largest_magnitude(result.output.to_vector()), 0.0);
  for (const double log : result.log_sum_exp.to_vector()) {
    EXPECT_EQ(log, -std::numeric_limits<double>::infinity());
  }
}

TEST_F(AttentionDocumentsTest, BeginsThatDoNotFitAreRefused) {
  AttentionCase in = draw(DType::kF64);
  in.first_seen.assign(2 * in.query.size(1) + 1, 0);
  const std::string message = test::message_of<ShapeError>(
      [&] { static_cast<void>(attention(in.query, in.key, in.value, in.options())); });
  EXPECT_NE(message.find("the first key that each of 2 x"), std::string::npos) << message;
}

/// The part of a case whose keys are `range`, with their absolute positions.
AttentionCase keys_of(const AttentionCase& in, Range range) {
  AttentionCase part = in;
  part.key = in.key.slice(1, range).contiguous();
  part.value = in.value.slice(1, range).contiguous();
  part.key_positions.resize(range.size());
  std::iota(part.key_positions.begin(), part.key_positions.end(),
            static_cast<std::int32_t>(range.begin));
  return part;
}

AttentionResult attend_views(const AttentionCase& in) {
  return attention(in.query, in.key, in.value, in.options());
}

/// Adds results over disjoint keys, weighted by exp of their log-sum-exp.
struct Merged {
  Merged(const AttentionCase& in, const std::vector<AttentionResult>& parts)
      : output(in.query.numel(), 0.0),
        log_sum_exp(in.query.numel() / in.query.size(3), -std::numeric_limits<double>::infinity()) {
    for (const AttentionResult& part : parts) {
      const std::vector<double> o = part.output.to_vector();
      const std::vector<double> l = part.log_sum_exp.to_vector();
      for (std::size_t row = 0; row < l.size(); ++row) add_row(in.query.shape(), row, o, l[row]);
    }
  }

  void add_row(const Shape& query, std::size_t row, const std::vector<double>& o, double l) {
    const double before = log_sum_exp[row];
    const double highest = std::max(before, l);
    if (highest == -std::numeric_limits<double>::infinity()) return;
    const double sum = highest + std::log(std::exp(before - highest) + std::exp(l - highest));
    log_sum_exp[row] = sum;
    const std::size_t i = row % query[1];  // rows of the log-sum-exp are [batch, heads, seq]
    const std::size_t h = row / query[1] % query[2];
    const std::size_t b = row / query[1] / query[2];
    const std::size_t at = ((b * query[1] + i) * query[2] + h) * query[3];
    for (std::size_t c = 0; c < query[3]; ++c) {
      output[at + c] = std::exp(before - sum) * output[at + c] + std::exp(l - sum) * o[at + c];
    }
  }

  std::vector<double> output;
  std::vector<double> log_sum_exp;
};

class AttentionRangesTest : public test::RandomTest {
 protected:
  [[nodiscard]] AttentionCase draw(DType dtype) {
    const std::size_t seq = random.pick({random.between(2, 20), random.between(500, 600)});
    const std::size_t queries = random.between(1, std::min<std::size_t>(seq, 70));
    const std::size_t first = random.between(0, seq - queries);
    AttentionCase in;
    in.query = random.tensor(device, {2, queries, 4, 6}, dtype);
    in.key = random.tensor(device, {2, seq, 2, 6}, dtype);
    in.value = random.tensor(device, {2, seq, 2, 6}, dtype);
    in.mask = random.pick({Mask::kNone, Mask::kCausal});
    in.scale = 1.0 / std::sqrt(6.0);
    in.query_positions.resize(queries);
    std::iota(in.query_positions.begin(), in.query_positions.end(),
              static_cast<std::int32_t>(first));
    return in;
  }

  [[nodiscard]] std::vector<Range> cut(std::size_t seq) {
    std::vector<Range> ranges;
    for (std::size_t begin = 0; begin < seq;) {
      ranges.push_back({begin, random.between(begin + 1, seq)});
      begin = ranges.back().end;
    }
    return ranges;
  }
};

TEST_F(AttentionRangesTest, PartsMergedThroughTheirLogSumExpEqualTheWhole) {
  for (int round = 0; round < 10; ++round) {
    const AttentionCase in = draw(random.pick({DType::kF32, DType::kF64}));
    std::vector<AttentionResult> parts;
    for (const Range range : cut(in.key.size(1))) parts.push_back(attend_views(keys_of(in, range)));
    const Merged merged(in, parts);
    const NaiveForward expected = naive_attention(in);
    const double parts_count = count_of(parts.size());
    // Each part has the whole's tolerance at most, and the merge weights them to 1. An error of the
    // log-sum-exp changes a weight, and through it an output of at most max |value|.
    const double value = test::largest_magnitude(in.value.to_vector());
    EXPECT_TRUE(
        all_near(Tensor::from<double>(device, in.query.shape(), merged.output), expected.output,
                 expected.output_tolerance + 2 * parts_count * expected.log_tolerance * value));
    EXPECT_TRUE(
        all_near(Tensor::from<double>(device, {merged.log_sum_exp.size()}, merged.log_sum_exp),
                 expected.log_sum_exp, parts_count * expected.log_tolerance));
  }
}

TEST_F(AttentionRangesTest, GradientsOfPartsWithTheGlobalResultsAddUpToTheWhole) {
  for (int round = 0; round < 10; ++round) {
    const AttentionCase in = draw(random.pick({DType::kF32, DType::kF64}));
    SCOPED_TRACE(in.query.shape().str() + " " + in.key.shape().str());
    const Tensor d_output = random.tensor(device, in.query.shape(), in.query.dtype());
    const AttentionResult whole = attend_views(in);
    const Tensor d_query = Tensor::zeros(device, in.query.shape(), in.query.dtype());
    const Tensor d_key = Tensor::empty(device, in.key.shape(), in.key.dtype());
    const Tensor d_value = Tensor::empty(device, in.key.shape(), in.key.dtype());
    const std::vector<Range> ranges = cut(in.key.size(1));
    for (const Range range : ranges) {
      const AttentionCase part = keys_of(in, range);
      const AttentionGradients gradients =
          attention_backward(d_output, part.query, part.key, part.value, whole.output,
                             whole.log_sum_exp, part.options());
      add_into(d_query, gradients.d_query);
      d_key.slice(1, range).copy_from(gradients.d_key);
      d_value.slice(1, range).copy_from(gradients.d_value);
    }
    const NaiveBackward expected = naive_attention_backward(in, d_output);
    // The sum over parts adds one rounding per part to those of the whole: fewer than there are keys.
    EXPECT_TRUE(all_near(d_query, expected.d_query, expected.query_tolerance));
    EXPECT_TRUE(all_near(d_key, expected.d_key, expected.key_tolerance));
    EXPECT_TRUE(all_near(d_value, expected.d_value, expected.value_tolerance));
  }
}

}  // namespace
}  // namespace ultra::ops
