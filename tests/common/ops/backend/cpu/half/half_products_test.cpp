// Products of two-byte numbers.
// Covers: common/ops/backend/cpu/onednn/onednn_matmul.hpp

#include <barrier>

#include "common/ops/attention.hpp"
#include "common/ops/backend/cpu/half/half_ops.hpp"
#include "common/ops/backend/cpu/onednn/onednn_matmul.hpp"
#include "common/ops/matmul.hpp"
#include "common/tensor/host_view.hpp"
#include "tests/common/ops/attention_reference.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

using Product = void (*)(const Tensor&, const Tensor&, Transpose, const Tensor&, Transpose, Write);

struct Case {
  Tensor a;
  Tensor b;
  Tensor out;
  Transpose transpose_a;
  Transpose transpose_b;
  Write write;
};

/// |error| of sums of k products in f32, and of rounding the result.
struct Bounds {
  std::vector<double> values;
  std::vector<double> tolerances;
};

Bounds expected_of(const Case& in) {
  const auto op = [](const Tensor& x, Transpose transpose) {
    return (transpose == Transpose::kNo ? x : x.transpose(0, 1)).to(DType::kF64);
  };
  const Tensor a = op(in.a, in.transpose_a);
  const Tensor b = op(in.b, in.transpose_b);
  const auto magnitudes = [](const Tensor& x) {
    const Tensor all = x.clone();
    for (double& value : HostView<double>(all, HostAccess::kReadWrite)) value = std::abs(value);
    return all;
  };
  const auto before = in.out.to_vector();
  const auto sums = matmul(a, Transpose::kNo, b, Transpose::kNo).to_vector();
  const auto sizes =
      matmul(magnitudes(a), Transpose::kNo, magnitudes(b), Transpose::kNo).to_vector();
  Bounds bounds;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double start = in.write == Write::kAccumulate ? before[i] : 0.0;
    bounds.values.push_back(start + sums[i]);
    const double in_f32 =
        rounding_bound(DType::kF32, count_of(a.size(1) + 2), sizes[i] + std::abs(start));
    bounds.tolerances.push_back(
        in_f32 + rounding_bound(in.out.dtype(), 0.5, std::abs(bounds.values.back()) + in_f32));
  }
  return bounds;
}

class HalfMatmulTest : public test::RandomTest {
 protected:
  [[nodiscard]] Tensor matrix(std::size_t rows, std::size_t columns, DType dtype) {
    const std::size_t gap = random.pick({std::size_t{0}, std::size_t{7}});
    const std::size_t before = random.between(0, gap);
    return random.tensor(device, {rows, columns + gap}, dtype).slice(1, {before, before + columns});
  }

  [[nodiscard]] Case draw(DType dtype, std::size_t m, std::size_t n, std::size_t k) {
    const Transpose ta = random.pick({Transpose::kNo, Transpose::kYes});
    const Transpose tb = random.pick({Transpose::kNo, Transpose::kYes});
    return {.a = ta == Transpose::kNo ? matrix(m, k, dtype) : matrix(k, m, dtype),
            .b = tb == Transpose::kNo ? matrix(k, n, dtype) : matrix(n, k, dtype),
            .out = matrix(m, n, random.pick({dtype, DType::kF32})),
            .transpose_a = ta,
            .transpose_b = tb,
            .write = random.pick({Write::kOverwrite, Write::kAccumulate})};
  }

  void check(const Case& in, Product product) {
    const Bounds expected = expected_of(in);
    product(in.out, in.a, in.transpose_a, in.b, in.transpose_b, in.write);
    EXPECT_TRUE(all_near(in.out, expected.values, expected.tolerances))
        << in.a.shape().str() << " " << in.b.shape().str() << " into " << to_string(in.out.dtype());
  }

  [[nodiscard]] std::size_t extent() {
    return random.pick({std::size_t{1}, random.between(1, 9), random.between(10, 70)});
  }
};

TEST_F(HalfMatmulTest, SumsInF32AndRoundsOnce) {
  for (int round = 0; round < 150; ++round) {
    const DType dtype = random.pick({DType::kBF16, DType::kF16});
    check(draw(dtype, extent(), extent(), extent()), matmul_into);
  }
}

TEST_F(HalfMatmulTest, ConvertedBlocksGiveTheSameOnEveryProcessor) {
  device = Device::cpu();
  for (int round = 0; round < 40; ++round) {
    const DType dtype = random.pick({DType::kBF16, DType::kF16});
    check(draw(dtype, extent(), extent(), extent()), cpu::half::matmul_by_blocks);
  }
  check(draw(DType::kBF16, 530, 3, 20), cpu::half::matmul_by_blocks);  // more than a block of rows
  check(draw(DType::kF16, 3, 1040, 20), cpu::half::matmul_by_blocks);  // and of columns
}

TEST_F(HalfMatmulTest, OneDnnTakesProductsOfAnySizeAndStride) {
  if (!cpu::onednn::is_available()) {
    GTEST_SKIP() << "no oneDNN in this build, or a processor without products of bf16";
  }
  device = Device::cpu();
  for (int round = 0; round < 60; ++round) {
    check(draw(DType::kBF16, extent(), extent(), extent()), cpu::onednn::matmul);
  }
  check(draw(DType::kBF16, 300, 200, 500), cpu::onednn::matmul);
}

TEST_F(HalfMatmulTest, EqualProductsGiveEqualBits) {
  const Case in = draw(DType::kBF16, 64, 96, 128);
  const Tensor first = matmul(in.a, in.transpose_a, in.b, in.transpose_b);
  std::vector<Tensor> others(2);
  {
    std::barrier start(2);
    const auto run = [&](std::size_t i) {
      start.arrive_and_wait();
      others[i] = matmul(in.a, in.transpose_a, in.b, in.transpose_b);
    };
    const std::jthread one(run, 0);
    const std::jthread two(run, 1);
  }
  for (const Tensor& other : others) EXPECT_TRUE(test::all_equal(other, first));
}

TEST_F(HalfMatmulTest, NothingToSumIsZero) {
  const Tensor a = Tensor::empty(device, {3, 0}, DType::kBF16);
  const Tensor b = Tensor::empty(device, {0, 2}, DType::kBF16);
  const Tensor out = test::filled(device, {3, 2}, DType::kBF16, 5.0);
  matmul_into(out, a, Transpose::kNo, b, Transpose::kNo, Write::kAccumulate);
  EXPECT_THAT(out.to_vector(), Each(5.0));
  matmul_into(out, a, Transpose::kNo, b, Transpose::kNo);
  EXPECT_THAT(out.to_vector(), Each(0.0));
}

TEST_F(HalfMatmulTest, InfinityAndNanStayInTheirRow) {
  for (const DType dtype : test::kHalfDTypes) {
    const Tensor a = test::filled(device, {40, 40}, dtype, 1.0);
    const Tensor b = test::filled(device, {40, 40}, dtype, 1.0);
    a.slice(0, {3, 4}).slice(1, {5, 6}).fill(INFINITY);
    a.slice(0, {7, 8}).slice(1, {39, 40}).fill(NAN);
    const Tensor out = matmul(a, Transpose::kNo, b, Transpose::kYes);
    for (std::size_t row = 0; row < 40; ++row) {
      for (const double value : out.slice(0, {row, row + 1}).to_vector()) {
        if (row == 7) {
          EXPECT_TRUE(std::isnan(value));
        } else {
          EXPECT_EQ(value, row == 3 ? double{INFINITY} : 40.0);
        }
      }
    }
  }
}

TEST_F(HalfMatmulTest, KernelsAreKeptAndMemoryIsNot) {
  device = Device::cpu();
  const Case in = draw(DType::kBF16, 64, 64, 64);
  const Tensor out = Tensor::empty(device, {64, 64}, DType::kBF16);
  const auto run = [&] { matmul_into(out, in.a, in.transpose_a, in.b, in.transpose_b); };
  run();
  const std::size_t allocations = device.system_allocations();
  const std::size_t bytes = device.memory().current().total();
  for (int i = 0; i < 3; ++i) run();
  EXPECT_EQ(device.system_allocations(), allocations);
  EXPECT_EQ(device.memory().current().total(), bytes);
}

TEST_F(HalfMatmulTest, ManyShapesDoNotFillTheMemory) {
  device = Device::cpu();
  for (std::size_t m = 1; m <= 300; ++m) {  // more than the kernels that a thread keeps
    const Tensor a = test::filled(device, {m, 64}, DType::kBF16, 1.0);
    const Tensor b = test::filled(device, {64, 512}, DType::kBF16, 1.0);
    const Tensor out = matmul(a, Transpose::kNo, b, Transpose::kNo, DType::kF32);
    ASSERT_EQ(out.slice(0, {m - 1, m}).to_vector().back(), 64.0);
  }
}

TEST_F(HalfMatmulTest, TypesThatDoNotMixAreRefused) {
  const Tensor half = Tensor::zeros(device, {2, 2}, DType::kBF16);
  const Tensor other = Tensor::zeros(device, {2, 2}, DType::kF16);
  const Tensor f32 = Tensor::zeros(device, {2, 2}, DType::kF32);
  const auto multiply = [](const Tensor& out, const Tensor& a, const Tensor& b) {
    return message_of<ShapeError>([&] { matmul_into(out, a, Transpose::kNo, b, Transpose::kNo); });
  };
  EXPECT_THAT(multiply(half, half, f32), HasSubstr("matrices of one dtype"));
  EXPECT_THAT(multiply(half, half, other), HasSubstr("matrices of one dtype"));
  EXPECT_THAT(multiply(other, half, half), HasSubstr("of f16, from factors of bf16"));
  EXPECT_THAT(multiply(half, f32, f32), HasSubstr("of bf16, from factors of f32"));
}

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
