#pragma once
/// @file
/// Backend: the operations as one kind of device computes them.
///
/// The functions of common/ops check shapes and allocate results, then call the backend of the
/// tensors' device. A backend sees only tensors that fit each other.

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/ops/adamw.hpp"
#include "common/ops/attention.hpp"
#include "common/ops/matmul.hpp"
#include "common/ops/rope.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief The operations on one kind of device; see the public headers for what each computes.
class Backend {
 public:
  virtual ~Backend() = default;

  /// @brief See ops::matmul_into.
  virtual void matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
                      Transpose transpose_b, Write write) const = 0;
  /// @brief out = a + b; out may be a.
  virtual void add(const Tensor& out, const Tensor& a, const Tensor& b) const = 0;
  /// @brief See ops::scale_into.
  virtual void scale(const Tensor& a, double factor) const = 0;
  /// @brief See ops::digits_of_sums.
  [[nodiscard]] virtual std::size_t digits_of_sums() const { return 1; }
  /// @brief See ops::sum_of_squares.
  [[nodiscard]] virtual double sum_of_squares(const Tensor& x) const = 0;
  /// @brief See ops::sum_of_squares_into.
  virtual void sum_of_squares_into(const Tensor& sum, const Tensor& x, Write write) const = 0;
  /// @brief See ops::rms_norm.
  virtual void rms_norm(const Tensor& y, const Tensor& reciprocal_rms, const Tensor& x,
                        const Tensor& weight, double epsilon) const = 0;
  /// @brief See ops::rms_norm_backward.
  virtual void rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, Write write,
                                 const Tensor& d_y, const Tensor& x, const Tensor& weight,
                                 const Tensor& reciprocal_rms) const = 0;
  /// @brief See ops::rope_into.
  virtual void rope(const Tensor& x, const RopeTable& table,
                    std::span<const std::int32_t> positions, Rotation rotation) const = 0;
  /// @brief See ops::attention; the positions are always given.
  virtual void attention(const AttentionResult& result, const Tensor& query, const Tensor& key,
                         const Tensor& value, const AttentionOptions& options) const = 0;
  /// @brief See ops::attention_backward; the positions are always given.
  virtual void attention_backward(const AttentionGradients& gradients, const Tensor& d_output,
                                  const Tensor& query, const Tensor& key, const Tensor& value,
                                  const Tensor& output, const Tensor& log_sum_exp,
                                  const AttentionOptions& options) const = 0;
  /// @brief See ops::swiglu.
  virtual void swiglu(const Tensor& product, const Tensor& gate, const Tensor& up) const = 0;
  /// @brief See ops::swiglu_backward.
  virtual void swiglu_backward(const Tensor& d_gate, const Tensor& d_up, const Tensor& d_product,
                               const Tensor& gate, const Tensor& up) const = 0;
  /// @brief See ops::embedding_part.
  virtual void embedding(const Tensor& out, const Tensor& part, const Tensor& tokens,
                         std::size_t first_token) const = 0;
  /// @brief See ops::embedding_part_backward_into.
  virtual void embedding_backward(const Tensor& d_part, const Tensor& d_output,
                                  const Tensor& tokens, std::size_t first_token) const = 0;
  /// @brief See ops::cross_entropy_into_gradient.
  [[nodiscard]] virtual double cross_entropy(const Tensor& logits, const Tensor& targets,
                                             double normalizer, double z_loss) const = 0;
  /// @brief The same, whose loss goes to a number on the device.
  virtual void cross_entropy_into(const Tensor& loss, const Tensor& logits, const Tensor& targets,
                                  double normalizer, Write write, double z_loss) const = 0;
  /// @brief See ops::adamw_into.
  virtual void adamw(std::span<const AdamWTensors> tensors, const AdamWStep& constants) const = 0;
};

/// @brief The backend of a device's kind, and of its sums.
[[nodiscard]] const Backend& backend_of(const Device& device);

/// @brief The CPU backend: OpenBLAS for matrix products, vectorised single-pass loops for the rest.
[[nodiscard]] const Backend& cpu_backend();

/// @brief The CPU's, with one order for every sum over a long axis: ops::SumTree's.
///
/// Sums of bf16 and f16 are made in f32 and rounded once, when all of the axis that is here has been added.
/// No row's result depends on its neighbours, and what parts of an axis give, joined as the tree joins,
/// are the bits of the whole. Sums of squares and losses are exact (ExactSum), in ExactSum::kDigits
/// numbers where they are added to.
[[nodiscard]] const Backend& tree_backend();

/// @brief The backend of devices with streams: the kernels that a device brings, and cuBLASLt for matrix
/// products where it has one.
[[nodiscard]] const Backend& kernel_backend();

/// @brief The generic kernels alone, with the same order for every sum as tree_backend(); a query's sums over
/// keys, and a row's, are in the order of its elements, which no layout cuts.
[[nodiscard]] const Backend& tree_kernel_backend();

/// @brief The backend of the meta device: it says what the operations are, and computes none of them.
[[nodiscard]] const Backend& meta_backend();

}  // namespace ultra::ops
