#pragma once
/// @file
/// KernelBackend: the operations by kernels, on a GPU or on the emulated device.

#include "common/ops/backend/backend.hpp"

namespace ultra::ops::gpu {

/// @brief The backend of every device with streams, by the kernels that it brings. Every operation is put into the current stream
/// (gpu::StreamScope), and the host goes on; only those that return a number wait.
///
/// The kernels are those of kernel_choice.hpp. An operation gives the same bits each time that it is done
/// with the same operands.
class KernelBackend : public Backend {
 public:
  void matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
              Transpose transpose_b, Write write) const override;
  void add(const Tensor& out, const Tensor& a, const Tensor& b) const override;
  void scale(const Tensor& a, double factor) const override;
  double sum_of_squares(const Tensor& x) const override;
  void sum_of_squares_into(const Tensor& sum, const Tensor& x, Write write) const override;
  void rms_norm(const Tensor& y, const Tensor& reciprocal_rms, const Tensor& x,
                const Tensor& weight, double epsilon) const override;
  void rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, Write write, const Tensor& d_y,
                         const Tensor& x, const Tensor& weight,
                         const Tensor& reciprocal_rms) const override;
  void rope(const Tensor& x, const RopeTable& table, std::span<const std::int32_t> positions,
            Rotation rotation) const override;
  void attention(const AttentionResult& result, const Tensor& query, const Tensor& key,
                 const Tensor& value, const AttentionOptions& options) const override;
  void attention_backward(const AttentionGradients& gradients, const Tensor& d_output,
                          const Tensor& query, const Tensor& key, const Tensor& value,
                          const Tensor& output, const Tensor& log_sum_exp,
                          const AttentionOptions& options) const override;
  void swiglu(const Tensor& product, const Tensor& gate, const Tensor& up) const override;
  void swiglu_backward(const Tensor& d_gate, const Tensor& d_up, const Tensor& d_product,
                       const Tensor& gate, const Tensor& up) const override;
  void embedding(const Tensor& out, const Tensor& part, const Tensor& tokens,
                 std::size_t first_token) const override;
  void embedding_backward(const Tensor& d_part, const Tensor& d_output, const Tensor& tokens,
                          std::size_t first_token) const override;
  double cross_entropy(const Tensor& logits, const Tensor& targets, double normalizer,
                       double z_loss) const override;
  void cross_entropy_into(const Tensor& loss, const Tensor& logits, const Tensor& targets,
                          double normalizer, Write write, double z_loss) const override;
  void adamw(std::span<const AdamWTensors> tensors, const AdamWStep& constants) const override;
};

/// @brief See tree_kernel_backend(): what leaves do not say (leaf_of), nor kernel_choice.hpp.
class TreeKernelBackend final : public KernelBackend {
 public:
  std::size_t digits_of_sums() const override;
  double sum_of_squares(const Tensor& x) const override;
  void sum_of_squares_into(const Tensor& sum, const Tensor& x, Write write) const override;
  double cross_entropy(const Tensor& logits, const Tensor& targets, double normalizer,
                       double z_loss) const override;
  void cross_entropy_into(const Tensor& loss, const Tensor& logits, const Tensor& targets,
                          double normalizer, Write write, double z_loss) const override;
};

}  // namespace ultra::ops::gpu
