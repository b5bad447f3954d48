#include "common/base/errors.hpp"
#include "common/ops/backend/backend.hpp"
#include "common/ops/backend/cpu/half/half_ops.hpp"
#include "common/ops/backend/cpu/kernels.hpp"
#include "common/ops/backend/cpu/tree/tree_attention.hpp"
#include "common/ops/backend/cpu/tree/tree_rows.hpp"
#include "common/ops/backend/cpu/tree_gemm.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/sums/exact_sum.hpp"

namespace ultra::ops {
namespace {

using cpu::MatrixView;

/// gemm(), by trees; alpha is 1 where it is added to what is there.
template <class T>
void tree_product(Transpose ta, Transpose tb, std::size_t m, std::size_t n, std::size_t k, T alpha,
                  MatrixView<const T> a, MatrixView<const T> b, T beta, MatrixView<T> c) {
  cpu::tree_gemm(SumTree::of_axis(k), ta, tb, m, n, k, a, b,
                 beta == T(0) ? Write::kOverwrite : Write::kAccumulate, c);
  if (alpha == T(1)) return;
  ensure(beta == T(0), "a factor of a product that is not added to another");
  for (std::size_t row = 0; row < m; ++row) cpu::scale(n, alpha, c.data + row * c.stride);
}

/// Numbers of two bytes as f32, in which their sums are made; others as they are.
Tensor wide(const Tensor& x) { return cast(x, accumulation_dtype(x.dtype())); }

/// What has been made in wide numbers, where it belongs.
void put_back(const Tensor& into, const Tensor& made) {
  if (!made.shares_storage(into)) cast_into(into, made);
}

class TreeBackend final : public Backend {
 public:
  void matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
              Transpose transpose_b, Write write) const override {
    const std::size_t k = transpose_a == Transpose::kNo ? a.size(1) : a.size(0);
    if (out.numel() == 0) return;
    if (k == 0) {
      if (write == Write::kOverwrite) out.fill(0.0);
      return;
    }
    if (is_half(a.dtype())) {
      return cpu::half::matmul_by_blocks(out, a, transpose_a, b, transpose_b, write, tree_product);
    }
    dispatch_float(out.dtype(), [&]<class T>() {
      cpu::tree_gemm(SumTree::of_axis(k), transpose_a, transpose_b, out.size(0), out.size(1), k,
                     MatrixView<const T>{a.data<T>(), cpu::row_stride(a)},
                     MatrixView<const T>{b.data<T>(), cpu::row_stride(b)}, write,
                     MatrixView<T>{out.data<T>(), cpu::row_stride(out)});
    });
  }

  std::size_t digits_of_sums() const override { return ExactSum::kDigits; }

  double sum_of_squares(const Tensor& x) const override { return exact_squares(x).value(); }

  void sum_of_squares_into(const Tensor& sum, const Tensor& x, Write write) const override {
    exact_squares(x).put(sum.span<double>(), write);
  }

  void rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, Write write, const Tensor& d_y,
                         const Tensor& x, const Tensor& weight,
                         const Tensor& reciprocal_rms) const override {
    const DType dtype = accumulation_dtype(x.dtype());
    const Tensor sums = Tensor::empty(x.device(), d_weight.shape(), dtype);
    const Tensor d_rows = is_half(x.dtype()) ? Tensor::empty(x.device(), x.shape(), dtype) : d_x;
    dispatch_float(dtype, [&]<class T>() {
      cpu::tree_rms_norm_backward<T>(reciprocal_rms.numel(), x.size(-1), wide(d_y).span<T>().data(),
                                     wide(x).span<T>().data(), wide(weight).span<T>().data(),
                                     reciprocal_rms.span<T>().data(), d_rows.data<T>(),
                                     sums.span<T>().data());
    });
    put_back(d_x, d_rows);
    write_or_add(d_weight, sums, write);
  }

  void attention(const AttentionResult& result, const Tensor& query, const Tensor& key,
                 const Tensor& value, const AttentionOptions& options) const override {
    if (is_half(query.dtype())) {
      return cpu::half::attention(result, query, key, value, options, cpu::tree_attention<float>);
    }
    dispatch_float(query.dtype(), [&]<class T>() {
      cpu::tree_attention(cpu::attention_operands<T>(query, key, value, options), query.device(),
                          result.output.data<T>(), result.log_sum_exp.data<T>());
    });
  }

  void attention_backward(const AttentionGradients& gradients, const Tensor& d_output,
                          const Tensor& query, const Tensor& key, const Tensor& value,
                          const Tensor& output, const Tensor& log_sum_exp,
                          const AttentionOptions& options) const override {
    if (is_half(query.dtype())) {
      return cpu::half::attention_backward(gradients, d_output, query, key, value, output,
                                           log_sum_exp, options,
                                           cpu::tree_attention_backward<float>);
    }
    dispatch_float(query.dtype(), [&]<class T>() {
      cpu::tree_attention_backward<T>(
          cpu::attention_operands<T>(query, key, value, options), query.device(),
          d_output.span<T>().data(), output.span<T>().data(), log_sum_exp.span<T>().data(),
          gradients.d_query.data<T>(), gradients.d_key.data<T>(), gradients.d_value.data<T>());
    });
  }

  void embedding_backward(const Tensor& d_part, const Tensor& d_output, const Tensor& tokens,
                          std::size_t first_token) const override {
    const Tensor rows = wide(d_part);
    dispatch_float(rows.dtype(), [&]<class T>() {
      cpu::tree_embedding_backward<T>(tokens.span<std::int32_t>(), wide(d_output).span<T>().data(),
                                      first_token, rows.size(0), rows.size(1),
                                      rows.span<T>().data());
    });
    put_back(d_part, rows);
  }

  double cross_entropy(const Tensor& logits, const Tensor& targets, double normalizer,
                       double z_loss) const override {
    const Tensor loss = Tensor::empty(logits.device(), {ExactSum::kDigits}, DType::kF64);
    cross_entropy_into(loss, logits, targets, normalizer, Write::kOverwrite, z_loss);
    return ExactSum(loss.span<double>()).value();
  }

  void cross_entropy_into(const Tensor& loss, const Tensor& logits, const Tensor& targets,
                          double normalizer, Write write, double z_loss) const override {
    ensure(z_loss == 0.0, "sums by trees have no z-loss");
    cross_entropy_by_trees(loss, logits, targets, normalizer, write);
  }

  // No sum over a long axis, or one of a row that no layout cuts: as everywhere.
  void add(const Tensor& out, const Tensor& a, const Tensor& b) const override {
    cpu_backend().add(out, a, b);
  }
  void scale(const Tensor& a, double factor) const override { cpu_backend().scale(a, factor); }
  void rms_norm(const Tensor& y, const Tensor& reciprocal_rms, const Tensor& x,
                const Tensor& weight, double epsilon) const override {
    cpu_backend().rms_norm(y, reciprocal_rms, x, weight, epsilon);
  }
  void rope(const Tensor& x, const RopeTable& table, std::span<const std::int32_t> positions,
            Rotation rotation) const override {
    cpu_backend().rope(x, table, positions, rotation);
  }
  void swiglu(const Tensor& product, const Tensor& gate, const Tensor& up) const override {
    cpu_backend().swiglu(product, gate, up);
  }
  void swiglu_backward(const Tensor& d_gate, const Tensor& d_up, const Tensor& d_product,
                       const Tensor& gate, const Tensor& up) const override {
    cpu_backend().swiglu_backward(d_gate, d_up, d_product, gate, up);
  }
  void embedding(const Tensor& out, const Tensor& part, const Tensor& tokens,
                 std::size_t first_token) const override {
    cpu_backend().embedding(out, part, tokens, first_token);
  }
  void adamw(std::span<const AdamWTensors> tensors, const AdamWStep& constants) const override {
    cpu_backend().adamw(tensors, constants);
  }

 private:
  static ExactSum exact_squares(const Tensor& x) {
    ExactSum sum;
    const Tensor numbers = wide(x);
    dispatch_float(numbers.dtype(), [&]<class T>() {
      for (const T each : numbers.span<T>()) {
        sum.add(static_cast<double>(each) * static_cast<double>(each));
      }
    });
    return sum;
  }
};

}  // namespace

const Backend& tree_backend() {
  static const TreeBackend backend;
  return backend;
}

}  // namespace ultra::ops
