// Covers: common/ops/backend/gpu/operands.hpp
//
// What the tests of common/ops leave out, which run on each device: problems that are large enough for
// the ladders, beside the CPU's results; that nothing waits; that runs are alike bit for bit.
#include "common/ops/backend/gpu/kernel_backend.hpp"

#include <numeric>

#include "common/base/numeric.hpp"
#include "common/gpu/runtime.hpp"
#include "common/ops/adamw.hpp"
#include "common/ops/cross_entropy.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/embedding.hpp"
#include "common/ops/fp8/fp8_products.hpp"
#include "common/ops/rms_norm.hpp"
#include "common/ops/swiglu.hpp"
#include "tests/common/ops/backend/gpu/device_backend.hpp"

namespace ultra::ops {
namespace {

class KernelBackendTest : public DeviceBackendTest {
 protected:
  /// A matrix inside a wider one, or not.
  [[nodiscard]] Tensor matrix(std::size_t rows, std::size_t columns, DType dtype) {
    const std::size_t gap = random.pick({std::size_t{0}, std::size_t{3}});
    return numbers({rows, columns + gap}, dtype).slice(1, {gap, gap + columns});
  }

  /// The same view of a wider matrix on the device.
  [[nodiscard]] Tensor strided_there(const Tensor& view) const {
    const std::size_t gap = view.is_contiguous() ? 0 : 3;
    const Tensor wide = Tensor::zeros(device, {view.size(0), view.size(1) + gap}, view.dtype());
    const Tensor result = wide.slice(1, {gap, gap + view.size(1)});
    result.copy_from(view);
    return result;
  }

  void check_product(DType dtype, std::size_t m, std::size_t n, std::size_t k) {
    const Transpose ta = random.pick({Transpose::kNo, Transpose::kYes});
    const Transpose tb = random.pick({Transpose::kNo, Transpose::kYes});
    const Write write = random.pick({Write::kOverwrite, Write::kAccumulate});
    const Tensor a = ta == Transpose::kNo ? matrix(m, k, dtype) : matrix(k, m, dtype);
    const Tensor b = tb == Transpose::kNo ? matrix(k, n, dtype) : matrix(n, k, dtype);
    const Tensor out = matrix(m, n, random.pick({dtype, accumulation_dtype(dtype)}));
    const Tensor out_there = strided_there(out);
    matmul_into(out_there, strided_there(a), ta, strided_there(b), tb, write);
    matmul_into(out, a, ta, b, tb, write);
    // Terms of size |x y| <= 25 in the sums of either, and each result is rounded.
    const DType sums = accumulation_dtype(dtype);
    const double in_sums = rounding_bound(sums, count_of(k + 2), 25.0 * count_of(k + 1));
    EXPECT_TRUE(all_near(out_there.to(cpu), out.to_vector(),
                         2.0 * in_sums + 2.0 * rounding_bound(out.dtype(), 1, largest(out))))
        << m << " x " << n << " x " << k << " of " << to_string(dtype);
  }

  [[nodiscard]] static double largest(const Tensor& x) {
    return test::largest_magnitude(x.to_vector());
  }

  void check_attention(DType dtype, std::size_t seq, std::size_t kv_heads, std::size_t head_dim,
                       std::size_t document = 0,
                       AttentionSums sums_of_results = AttentionSums::kRounded);
};

TEST_F(KernelBackendTest, ProductsOfAllWaysEqualTheCpus) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    for (int round = 0; round < 4; ++round) {
      check_product(dtype, random.between(64, 150), random.between(64, 150),
                    random.pick({std::size_t{8}, std::size_t{40}, random.between(1, 50)}));
      check_product(dtype, 8 * random.between(8, 18), 8 * random.between(8, 18),
                    8 * random.between(1, 12));
    }
  }
}

/// Whole numbers of fp8 up to 7 times a power of two for each tile, in bf16: sums of products are exact.
Tensor of_fp8(test::Random& random, const Shape& shape, std::size_t tile_rows, bool has_one_scale) {
  const Tensor x = Tensor::empty(Device::cpu(), shape, DType::kF32);
  const std::size_t beside = ceil_div(shape[1], kFp8Tile);
  std::vector<float> powers(has_one_scale ? 1 : ceil_div(shape[0], tile_rows) * beside);
  for (float& power : powers) power = std::ldexp(1.0F, static_cast<int>(random.between(0, 4)) - 2);
  const std::span<float> values = x.span<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t tile = i / shape[1] / tile_rows * beside + i % shape[1] / kFp8Tile;
    const float number = static_cast<float>(random.between(0, 14)) - 7.0F;
    values[i] = number * powers[has_one_scale ? 0 : tile];
  }
  return x.to(DType::kBF16);
}

TEST_F(KernelBackendTest, ProductsInFp8EqualTheCpusOfBf16) {
  const bool is_hopper = device.runtime().properties().compute_capability_major == 9;
  std::vector<std::string> launched;
  device.streams().set_listener(
      [&](const ultra::gpu::StreamSlice& slice) { launched.emplace_back(slice.operation); });
  for (int round = 0; round < 10; ++round) {
    const Fp8Factors factors{.left = random.pick({Fp8Left::kE4m3, Fp8Left::kE5m2}),
                             .have_one_scale = random.pick({false, true})};
    const bool turns_a = factors.have_one_scale && random.pick({false, true});
    const bool turns_b = turns_a || random.pick({false, true});
    const std::size_t rows = turns_a ? 8 * random.between(8, 40) : random.between(64, 300);
    const std::size_t columns = 8 * random.between(8, 40);
    const std::size_t depth = turns_a ? random.between(1, 300) : 8 * random.between(1, 40);
    const Write write = random.pick({Write::kOverwrite, Write::kAccumulate});
    const DType result = random.pick({DType::kBF16, DType::kF32});
    SCOPED_TRACE(fmt::format("{} x {} x {} to {}, turned: {}, {}", rows, columns, depth,
                             to_string(result), turns_a, turns_b));
    const auto factor = [&](std::size_t own, bool turns, std::size_t tile_rows) {
      return of_fp8(random, turns ? Shape{depth, own} : Shape{own, depth}, tile_rows,
                    factors.have_one_scale);
    };
    const Tensor a = factor(rows, turns_a, 1);
    const Tensor b = factor(columns, turns_b, kFp8Tile);
    const Tensor out = of_fp8(random, {rows, columns}, 1, true).to(result);
    const Tensor out_there = there(out);
    const Tensor a_there = there(a);
    const Tensor b_there = there(b);
    launched.clear();
    const Transpose transpose_a = turns_a ? Transpose::kYes : Transpose::kNo;
    const Transpose transpose_b = turns_b ? Transpose::kNo : Transpose::kYes;
    {
      const Fp8Products products({b_there}, factors);
      matmul_into(out_there, a_there, transpose_a, b_there, transpose_b, write);
    }
    const Tensor found = out_there.to(cpu);
    device.streams().report_slices();
    // On an H100 both factors are packed; so nothing else can have multiplied.
    EXPECT_EQ(std::ranges::count(launched, "fp8_factor"), is_hopper ? 2 : 0);
    matmul_into(out, a, transpose_a, b, transpose_b, write);
    // Tensor cores keep about 14 bits of a sum of 128 (DeepSeek-V3, arXiv 2412.19437, sec. 3.5.2).
    const bool has_few_bits = device.kind() == DeviceKind::kCuda && is_hopper;
    const double lost = has_few_bits ? count_of(depth) * largest(a) * largest(b) * 0x1p-13 : 0.0;
    const bool rounds_twice = has_few_bits || write == Write::kAccumulate;
    const double roundings =
        rounds_twice && result == DType::kBF16 ? 4 * rounding_bound(result, 1, largest(out)) : 0.0;
    EXPECT_TRUE(all_near(found, out.to_vector(), lost + roundings));
  }
  device.streams().set_listener(nullptr);
}

/// @param document  tokens of the shortest one that is packed in either sequence; 0: none is.
void KernelBackendTest::check_attention(DType dtype, std::size_t seq, std::size_t kv_heads,
                                        std::size_t head_dim, std::size_t document,
                                        AttentionSums sums_of_results) {
  const std::size_t heads = kv_heads * random.pick({std::size_t{1}, std::size_t{2}});
  const Tensor query = numbers({2, seq, heads, head_dim}, dtype);
  const Tensor key = numbers({2, seq, kv_heads, head_dim}, dtype);
  const Tensor value = numbers({2, seq, kv_heads, head_dim}, dtype);
  const Tensor d_output = numbers(query.shape(), dtype);
  std::vector<std::int32_t> positions(seq);
  std::iota(positions.begin(), positions.end(), random.pick({0, 50}));
  std::vector<std::int32_t> first_seen;
  for (std::size_t sequence = 0; document > 0 && sequence < 2; ++sequence) {
    const std::size_t second = random.between(document, seq - document);
    for (std::size_t i = 0; i < seq; ++i) first_seen.push_back(positions[i < second ? 0 : second]);
  }
  const Mask mask = document > 0 ? Mask::kCausal : random.pick({Mask::kCausal, Mask::kNone});
  const AttentionOptions options{.mask = mask,
                                 .scale = 1.0 / std::sqrt(count_of(head_dim)),
                                 .query_positions = positions,
                                 .key_positions = positions,
                                 .first_seen = first_seen,
                                 .window = random.pick({std::size_t{0}, random.between(1, seq)}),
                                 .sums = sums_of_results};
  const AttentionResult expected = attention(query, key, value, options);
  const AttentionResult found = attention(there(query), there(key), there(value), options);
  // Scores of size |q||k| scale: 10 of normal numbers' is plenty. exp turns a score's absolute error
  // into a relative one of its share; bf16's rungs round shares to the type of the values.
  const DType sums = accumulation_dtype(dtype);
  const double score_error = rounding_bound(sums, count_of(head_dim + 4), 10.0);
  const double share_error =
      2.0 * score_error + rounding_bound(dtype, 1, 1.0) + rounding_bound(sums, count_of(seq), 1.0);
  const double tolerance = 2.0 * share_error * largest(value);
  EXPECT_TRUE(all_near(found.output.to(cpu), expected.output, tolerance));
  EXPECT_TRUE(all_near(found.log_sum_exp.to(cpu), expected.log_sum_exp,
                       2.0 * score_error + rounding_bound(sums, count_of(seq), 10.0)));

  const AttentionGradients grads = attention_backward(d_output, query, key, value, expected.output,
                                                      expected.log_sum_exp, options);
  const AttentionGradients grads_there =
      attention_backward(there(d_output), there(query), there(key), there(value),
                         there(expected.output), there(expected.log_sum_exp), options);
  // A gradient is a sum over at most `seq` shares (d_share - delta) of at most 2 |d_o| |v| head_dim;
  // shares add up to 1 over keys, and over queries to some 10 at most.
  const double d_share = 2.0 * largest(d_output) * largest(value) * count_of(head_dim);
  const double d_tolerance = 10.0 * 4.0 * share_error * d_share * options.scale * largest(query);
  EXPECT_TRUE(all_near(grads_there.d_query.to(cpu), grads.d_query, d_tolerance));
  EXPECT_TRUE(all_near(grads_there.d_key.to(cpu), grads.d_key, d_tolerance));
  EXPECT_TRUE(
      all_near(grads_there.d_value.to(cpu), grads.d_value, 40.0 * share_error * largest(d_output)));
}

TEST_F(KernelBackendTest, AttentionOfPackedDocumentsEqualsTheCpus) {
  for (const std::size_t head_dim : {std::size_t{24}, std::size_t{128}}) {
    check_attention(DType::kBF16, random.between(130, 300),
                    random.pick({std::size_t{1}, std::size_t{2}}), head_dim, 20);
  }
}

TEST_F(KernelBackendTest, AttentionInPartsEqualsTheCpus) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const std::size_t head_dim : {std::size_t{24}, std::size_t{128}}) {
      check_attention(dtype, random.between(130, 300),
                      random.pick({std::size_t{1}, std::size_t{2}}), head_dim,
                      random.pick({std::size_t{0}, std::size_t{20}}), AttentionSums::kWide);
    }
  }
}

TEST_F(KernelBackendTest, AttentionOfLongRowsEqualsTheCpus) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const std::size_t head_dim : {std::size_t{64}, std::size_t{128}}) {
      check_attention(dtype, random.between(130, 300),
                      random.pick({std::size_t{1}, std::size_t{2}}), head_dim);
    }
  }
}

TEST_F(KernelBackendTest, AttentionOfAllWaysEqualsTheCpus) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    check_attention(dtype, random.between(64, 90), random.pick({std::size_t{1}, std::size_t{2}}),
                    random.pick({std::size_t{8}, std::size_t{24}}));
  }
}

TEST_F(KernelBackendTest, RmsNormAndItsGradientsEqualTheCpus) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Write write : {Write::kOverwrite, Write::kAccumulate}) {
      const std::size_t rows = random.between(64, 100);
      const std::size_t hidden = random.pick({std::size_t{68}, std::size_t{72}, std::size_t{67}});
      const Tensor x = numbers({rows, hidden}, dtype);
      const Tensor weight = numbers({hidden}, dtype);
      const auto [y, rms] = rms_norm(x, weight, 1e-5);
      const auto [y_there, rms_there] = rms_norm(there(x), there(weight), 1e-5);
      const auto near = [&](const Tensor& found, const Tensor& expected, std::size_t terms,
                            double size) {
        EXPECT_TRUE(all_near(found.to(cpu), expected,
                             rounding_bound(DType::kF32, count_of(terms), size) +
                                 rounding_bound(expected.dtype(), 1, size)))
            << to_string(dtype) << ", rows of " << hidden;
      };
      const double size = largest(x) * largest(weight) * largest(rms);
      near(rms_there, rms, hidden + 4, largest(rms));
      near(y_there, y, hidden + 8, size);
      const Tensor d_y = numbers(x.shape(), dtype);
      const Tensor d_weight = numbers({hidden}, random.pick({dtype, DType::kF32}));
      const Tensor d_weight_there = there(d_weight);
      const Tensor found =
          rms_norm_backward(there(d_y), there(x), there(weight), there(rms), d_weight_there, write);
      const Tensor expected = rms_norm_backward(d_y, x, weight, rms, d_weight, write);
      near(found, expected, hidden + 8, 2.0 * size * largest(d_y) * largest(rms));
      near(d_weight_there, d_weight, rows + 2,
           count_of(rows) * largest(d_y) * largest(x) * largest(rms) + 1.0);
    }
  }
}

TEST_F(KernelBackendTest, SwigluOfAlignedAndOtherTensorsEqualsTheCpus) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::size_t first : {std::size_t{0}, std::size_t{1}}) {
      const Shape shape{random.between(1, 9) * 37 + first};
      const Tensor gate = numbers(shape, dtype);
      const Tensor up = numbers(shape, dtype);
      const Range part{first, shape[0]};
      const Tensor found = swiglu(there(gate).slice(0, part), there(up).slice(0, part));
      const Tensor expected = swiglu(gate.slice(0, part), up.slice(0, part));
      const double size = largest(gate) * largest(up);
      const double tolerance =
          rounding_bound(DType::kF32, 12, size) + rounding_bound(dtype, 1, size);
      EXPECT_TRUE(all_near(found.to(cpu), expected, tolerance));
      const auto [d_gate, d_up] =
          swiglu_backward(found, there(gate).slice(0, part), there(up).slice(0, part));
      const auto [cpu_d_gate, cpu_d_up] =
          swiglu_backward(found.to(cpu), gate.slice(0, part), up.slice(0, part));
      EXPECT_TRUE(all_near(d_gate.to(cpu), cpu_d_gate, 2.0 * tolerance * largest(up)));
      EXPECT_TRUE(all_near(d_up.to(cpu), cpu_d_up, 2.0 * tolerance * largest(gate)));
    }
  }
}

/// All operations once; returns what they wrote.
std::vector<Tensor> all_operations(const Device& device, std::uint64_t seed, DType dtype) {
  test::Random random(seed);
  const Device cpu = Device::cpu();
  const auto there = [&](const Shape& shape) {
    return random.tensor(cpu, shape, dtype).to(device);
  };
  const Tensor x = there({2, 40, 64});
  const Tensor weight = there({64});
  const Tensor tokens = random.tokens(cpu, {2, 40}, 9).to(device);
  const Tensor loss = Tensor::zeros(device, {1}, DType::kF64);
  std::vector<Tensor> written = {x, weight, loss};
  const std::uint64_t before = device.streams().synchronizations();

  const auto [y, rms] = rms_norm(x, weight, 1e-5);
  const Tensor d_weight = Tensor::zeros(device, {64}, dtype);
  written.push_back(rms_norm_backward(y, x, weight, rms, d_weight, Write::kAccumulate));
  const RopeTable table(device, accumulation_dtype(dtype), 16, 200, 1e4);
  const Tensor heads = y.view({2, 40, 4, 16});
  std::vector<std::int32_t> positions(40);
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int>(3 * i);
  rope_into(heads, table, positions, Rotation::kForward);
  const AttentionOptions options{.query_positions = positions, .key_positions = positions};
  const AttentionResult attended = attention(heads, heads, heads, options);
  const AttentionGradients grads = attention_backward(heads, heads, heads, heads, attended.output,
                                                      attended.log_sum_exp, options);
  const Tensor product = swiglu(x, y);
  const auto [d_gate, d_up] = swiglu_backward(product, x, y);
  const Tensor logits = matmul(as_matrix(x), Transpose::kNo, as_matrix(y), Transpose::kYes);
  cross_entropy_into_gradient(loss, logits, tokens.view({80}), 80.0, Write::kOverwrite);
  const Tensor table_grad = Tensor::zeros(device, {9, 64}, dtype);
  embedding_backward_into(table_grad, x, tokens);
  sum_of_squares_into(loss, product, Write::kAccumulate);
  const Tensor first_moment = Tensor::zeros(device, x.shape(), dtype);
  const Tensor second_moment = Tensor::zeros(device, x.shape(), dtype);
  adamw_into(x, y, first_moment, second_moment, {});
  add_into(d_gate, d_up);
  scale_into(d_up, 0.3);
  EXPECT_LE(device.streams().synchronizations(), before + 2);  // the table of sines and cosines
  for (const Tensor& tensor :
       {d_weight, attended.output, attended.log_sum_exp, grads.d_query, grads.d_key, grads.d_value,
        d_gate, d_up, logits, table_grad, embedding(table_grad, tokens), product, first_moment,
        second_moment}) {
    written.push_back(tensor);
  }
  return written;
}

// Parts begin anywhere in what they are parts of.
TEST_F(KernelBackendTest, AdamWOfManyTensorsIsThatOfEachBitForBit) {
  const AdamWStep step{.weight_decay = 0.2, .gradient_scale = 0.3, .step = 2};
  const auto part = [&](std::size_t count, DType dtype) {
    const std::size_t begin = random.between(0, 9);
    return there(numbers({begin + count}, dtype)).slice(0, {begin, begin + count});
  };
  std::vector<AdamWTensors> together;
  for (std::size_t i = 0; i < 70; ++i) {
    const std::size_t count = random.between(1, i % 20 == 3 ? 9000 : 40);
    const DType dtype = random.pick({DType::kF32, DType::kF32, DType::kF64});
    const bool rounds = dtype == DType::kF32 && random.between(0, 1) == 1;
    const Tensor second = part(count, dtype);
    second.fill(0.5);
    together.push_back({.value = part(count, dtype),
                        .grad = part(count, rounds ? DType::kBF16 : dtype),
                        .first_moment = part(count, dtype),
                        .second_moment = second,
                        .decays = random.between(0, 1) == 1,
                        .rounded = rounds ? part(count, DType::kBF16) : Tensor()});
  }
  std::vector<AdamWTensors> each;
  for (const AdamWTensors& of : together) {
    each.push_back({.value = of.value.clone(),
                    .grad = of.grad,
                    .first_moment = of.first_moment.clone(),
                    .second_moment = of.second_moment.clone(),
                    .decays = of.decays});
    const AdamWTensors on_cpu{.value = of.value.to(cpu),
                              .grad = of.grad.to(cpu),
                              .first_moment = of.first_moment.to(cpu),
                              .second_moment = of.second_moment.to(cpu),
                              .decays = of.decays};
    adamw_into({&on_cpu, 1}, step);
    adamw_into({&each.back(), 1}, step);
    EXPECT_TRUE(all_near(each.back().value.to(cpu), on_cpu.value,
                         rounding_bound(of.value.dtype(), 20, largest(on_cpu.value) + 1.0)));
  }
  adamw_into(together, step);
  for (std::size_t i = 0; i < together.size(); ++i) {
    EXPECT_TRUE(test::all_equal(together[i].value, each[i].value)) << "tensor " << i;
    EXPECT_TRUE(test::all_equal(together[i].first_moment, each[i].first_moment)) << "tensor " << i;
    EXPECT_TRUE(test::all_equal(together[i].second_moment, each[i].second_moment));
    if (!together[i].rounded.defined()) continue;
    EXPECT_TRUE(test::all_equal(together[i].rounded, cast(each[i].value, DType::kBF16)));
  }
}

TEST_F(KernelBackendTest, NothingWaitsAndRunsAreAlikeBitForBit) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    const std::vector<Tensor> first = all_operations(device, seed, dtype);
    const std::vector<Tensor> second = all_operations(device, seed, dtype);
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_TRUE(test::all_equal(first[i], second[i])) << "tensor " << i;
    }
  }
}

}  // namespace
}  // namespace ultra::ops
