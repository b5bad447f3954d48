#include <cstring>

#include "common/ops/backend/backend.hpp"
#include "common/ops/backend/cpu/gemm.hpp"
#include "common/ops/backend/cpu/half/half_ops.hpp"
#include "common/ops/backend/cpu/kernels.hpp"

namespace ultra::ops {
namespace {

namespace half = cpu::half;

void write_number(const Tensor& number, double value, Write write) {
  double& place = *number.data<double>();
  place = write == Write::kOverwrite ? value : place + value;
}

/// Rows are summed in f32: a token that is there often would lose what its row no longer resolves.
void half_embedding_backward(const Tensor& d_part, const Tensor& d_output, const Tensor& tokens,
                             std::size_t first_token) {
  const Tensor sums = cast(d_part, DType::kF32);
  std::size_t from = 0;
  for (const std::int32_t id : tokens.span<std::int32_t>()) {
    const auto row = cpu::row_of(id, first_token, d_part.size(0));
    if (row) half::add_row(sums, *row, d_output, from);
    ++from;
  }
  if (!sums.shares_storage(d_part)) cast_into(d_part, sums);
}

class CpuBackend final : public Backend {
 public:
  // One thread per caller: ranks are threads of ours, and more would take each other's cores.
  CpuBackend() { openblas_set_num_threads(1); }

  void matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
              Transpose transpose_b, Write write) const override {
    const std::size_t k = transpose_a == Transpose::kNo ? a.size(1) : a.size(0);
    if (out.numel() == 0) return;
    if (is_half(a.dtype())) return half::matmul(out, a, transpose_a, b, transpose_b, write);
    dispatch_float(out.dtype(), [&]<class T>() {
      cpu::gemm(transpose_a, transpose_b, out.size(0), out.size(1), k, T(1),
                cpu::MatrixView<const T>{a.data<T>(), cpu::row_stride(a)},
                cpu::MatrixView<const T>{b.data<T>(), cpu::row_stride(b)},
                write == Write::kOverwrite ? T(0) : T(1),
                cpu::MatrixView<T>{out.data<T>(), cpu::row_stride(out)});
    });
  }

  void add(const Tensor& out, const Tensor& a, const Tensor& b) const override {
    if (is_half(a.dtype()) || is_half(b.dtype())) return half::add(out, a, b);
    dispatch_float(a.dtype(), [&]<class T>() {
      cpu::add(a.numel(), a.span<T>().data(), b.span<T>().data(), out.span<T>().data());
    });
  }

  void scale(const Tensor& a, double factor) const override {
    if (is_half(a.dtype())) return half::scale(a, static_cast<float>(factor));
    dispatch_float(a.dtype(), [&]<class T>() {
      cpu::scale(a.numel(), static_cast<T>(factor), a.span<T>().data());
    });
  }

  double sum_of_squares(const Tensor& x) const override {
    if (is_half(x.dtype())) return half::sum_of_squares(x);
    return dispatch_float(x.dtype(), [&]<class T>() {
      return cpu::sum_of_squares(x.numel(), static_cast<const T*>(x.span<T>().data()));
    });
  }

  void sum_of_squares_into(const Tensor& sum, const Tensor& x, Write write) const override {
    write_number(sum, sum_of_squares(x), write);
  }

  void rms_norm(const Tensor& y, const Tensor& reciprocal_rms, const Tensor& x,
                const Tensor& weight, double epsilon) const override {
    if (is_half(x.dtype())) return half::rms_norm(y, reciprocal_rms, x, weight, epsilon);
    dispatch_float(x.dtype(), [&]<class T>() {
      cpu::rms_norm<T>(reciprocal_rms.numel(), x.size(-1), x.span<T>().data(),
                       weight.span<T>().data(), static_cast<T>(epsilon), y.data<T>(),
                       reciprocal_rms.data<T>());
    });
  }

  void rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, Write write, const Tensor& d_y,
                         const Tensor& x, const Tensor& weight,
                         const Tensor& reciprocal_rms) const override {
    if (write == Write::kOverwrite) d_weight.fill(0.0);
    if (is_half(x.dtype())) {
      return half::rms_norm_backward(d_x, d_weight, d_y, x, weight, reciprocal_rms);
    }
    dispatch_float(x.dtype(), [&]<class T>() {
      cpu::rms_norm_backward<T>(reciprocal_rms.numel(), x.size(-1), d_y.span<T>().data(),
                                x.span<T>().data(), weight.span<T>().data(),
                                reciprocal_rms.span<T>().data(), d_x.data<T>(),
                                d_weight.span<T>().data());
    });
  }

  void rope(const Tensor& x, const RopeTable& table, std::span<const std::int32_t> positions,
            Rotation rotation) const override {
    if (is_half(x.dtype())) return half::rope(x, table, positions, rotation);
    dispatch_float(x.dtype(), [&]<class T>() {
      cpu::rope<T>(x.size(0), x.size(2), x.size(3) / 2, positions, table.cosines().span<T>().data(),
                   table.sines().span<T>().data(), rotation == Rotation::kForward ? T(1) : T(-1),
                   x.span<T>().data());
    });
  }

  void attention(const AttentionResult& result, const Tensor& query, const Tensor& key,
                 const Tensor& value, const AttentionOptions& options) const override {
    if (is_half(query.dtype())) return half::attention(result, query, key, value, options);
    dispatch_float(query.dtype(), [&]<class T>() {
      cpu::attention(cpu::attention_operands<T>(query, key, value, options), query.device(),
                     result.output.data<T>(), result.log_sum_exp.data<T>());
    });
  }

  void attention_backward(const AttentionGradients& gradients, const Tensor& d_output,
                          const Tensor& query, const Tensor& key, const Tensor& value,
                          const Tensor& output, const Tensor& log_sum_exp,
                          const AttentionOptions& options) const override {
    if (is_half(query.dtype())) {
      return half::attention_backward(gradients, d_output, query, key, value, output, log_sum_exp,
                                      options);
    }
    dispatch_float(query.dtype(), [&]<class T>() {
      cpu::attention_backward<T>(cpu::attention_operands<T>(query, key, value, options),
                                 query.device(), d_output.span<T>().data(), output.span<T>().data(),
                                 log_sum_exp.span<T>().data(), gradients.d_query.data<T>(),
                                 gradients.d_key.data<T>(), gradients.d_value.data<T>());
    });
  }

  void swiglu(const Tensor& product, const Tensor& gate, const Tensor& up) const override {
    if (is_half(gate.dtype())) return half::swiglu(product, gate, up);
    dispatch_float(gate.dtype(), [&]<class T>() {
      cpu::swiglu<T>(gate.numel(), gate.span<T>().data(), up.span<T>().data(), product.data<T>());
    });
  }

  void swiglu_backward(const Tensor& d_gate, const Tensor& d_up, const Tensor& d_product,
                       const Tensor& gate, const Tensor& up) const override {
    if (is_half(gate.dtype())) {
      return half::swiglu_backward(d_gate, d_up, d_product, gate, up);
    }
    dispatch_float(gate.dtype(), [&]<class T>() {
      cpu::swiglu_backward<T>(gate.numel(), d_product.span<T>().data(), gate.span<T>().data(),
                              up.span<T>().data(), d_gate.data<T>(), d_up.data<T>());
    });
  }

  void embedding(const Tensor& out, const Tensor& part, const Tensor& tokens,
                 std::size_t first_token) const override {
    const std::size_t row_bytes = part.size(1) * size_of(part.dtype());
    dispatch_stored(part.dtype(), [&]<class T>() {
      const T* rows = part.span<T>().data();
      T* to = out.data<T>();
      for (const std::int32_t id : tokens.span<std::int32_t>()) {
        const auto row = cpu::row_of(id, first_token, part.size(0));
        if (row) {
          std::memcpy(to, rows + *row * part.size(1), row_bytes);
        } else {
          std::memset(to, 0, row_bytes);
        }
        to += part.size(1);
      }
    });
  }

  void embedding_backward(const Tensor& d_part, const Tensor& d_output, const Tensor& tokens,
                          std::size_t first_token) const override {
    if (is_half(d_output.dtype())) {
      return half_embedding_backward(d_part, d_output, tokens, first_token);
    }
    const std::size_t hidden = d_part.size(1);
    dispatch_float(d_part.dtype(), [&]<class T>() {
      const T* from = d_output.span<T>().data();
      T* rows = d_part.span<T>().data();
      for (const std::int32_t id : tokens.span<std::int32_t>()) {
        if (const auto row = cpu::row_of(id, first_token, d_part.size(0))) {
          cpu::add(hidden, rows + *row * hidden, from, rows + *row * hidden);
        }
        from += hidden;
      }
    });
  }

  double cross_entropy(const Tensor& logits, const Tensor& targets, double normalizer,
                       double z_loss) const override {
    if (is_half(logits.dtype())) return half::cross_entropy(logits, targets, normalizer, z_loss);
    return dispatch_float(logits.dtype(), [&]<class T>() {
      return cpu::cross_entropy(targets.numel(), logits.size(-1), logits.span<T>().data(),
                                targets.data<std::int32_t>(), normalizer, z_loss);
    });
  }

  void cross_entropy_into(const Tensor& loss, const Tensor& logits, const Tensor& targets,
                          double normalizer, Write write, double z_loss) const override {
    write_number(loss, cross_entropy(logits, targets, normalizer, z_loss), write);
  }

  void adamw(std::span<const AdamWTensors> tensors, const AdamWStep& constants) const override {
    for (const AdamWTensors& of : tensors) {
      AdamWStep step = constants;
      if (!of.decays) step.weight_decay = 0.0;
      adamw(of.value, of.grad, of.first_moment, of.second_moment, step);
      if (of.rounded.defined()) cast_into(of.rounded, of.value);
    }
  }

 private:
  static void adamw(const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                    const Tensor& second_moment, const AdamWStep& constants) {
    if (is_half(value.dtype()) || is_half(grad.dtype()) || is_half(first_moment.dtype())) {
      return half::adamw(value, grad, first_moment, second_moment, constants);
    }
    dispatch_float(value.dtype(), [&]<class T>() {
      cpu::adamw<T>(value.numel(), constants, value.span<T>().data(), grad.span<T>().data(),
                    first_moment.span<T>().data(), second_moment.span<T>().data());
    });
  }
};

}  // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace ultra::ops
