#pragma once
/// @file
/// Layers whose sums are rounded to two bytes after every addition: to see why they are not.
///
/// | sum                     | over       | in a training                                     |
/// |-------------------------|------------|---------------------------------------------------|
/// | mean square of a norm   | features   | f32; here each square and each partial sum rounded |
/// | denominator of the loss | vocabulary | f32; here each term, partial sum and logarithm rounded |
/// | softmax of attention    | sequence   | f32; here every operation rounded (rounded_attention) |

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/nn/layer_factory.hpp"
#include "common/tensor/dtype.hpp"

namespace ultra::mixed_precision {

/// @brief Which sums are rounded after every addition.
struct RoundedSums {
  bool norms = false;    ///< the mean squares of all norms
  bool loss = false;     ///< softmax and cross-entropy of the logits
  bool softmax = false;  ///< softmax of attention, forward and backward

  /// @brief Whether any is.
  [[nodiscard]] bool any() const { return norms || loss || softmax; }
  /// @brief For example "norms", "norms,loss", "norms,loss,softmax" or "none".
  [[nodiscard]] std::string str() const;
};

/// @brief The sums that a list names.
/// @param text  "norms", "loss" and "softmax": one, or several with commas between them.
/// @throws ConfigError that says what --round-sums takes.
[[nodiscard]] RoundedSums parse_rounded_sums(std::string_view text);

/// @brief Makes norms, losses and attention whose sums are rounded, of activations of two bytes.
class RoundedSumsFactory : public nn::FactoryWrapper {
 public:
  /// @param inner  outlives this.
  RoundedSumsFactory(nn::LayerFactory& inner, const RoundedSums& sums)
      : FactoryWrapper(inner), sums_(sums) {}

  [[nodiscard]] std::unique_ptr<nn::Layer> norm(const nn::BuildContext& context,
                                                const nn::NormSpec& spec) override;
  [[nodiscard]] std::unique_ptr<nn::AttentionCore> attention_core(
      const nn::BuildContext& context) override;
  [[nodiscard]] std::unique_ptr<nn::LossLayer> loss(const nn::BuildContext& context) override;

 private:
  RoundedSums sums_;
};

/// @brief Errors of sums of so many gradients, over the length of the exact sum.
struct SumDrift {
  std::size_t micro_batches = 0;  ///< gradients added up
  double rounded_each = 0;        ///< the sum is rounded to two bytes at each addition
  double rounded_once = 0;        ///< the sum is f32, rounded at the end
};

/// @brief Adds gradients of two bytes up as a step does: one micro-batch after the other.
///
/// Gradients are a mean of 1 with noise of deviation 1, drawn by `seed`.
/// @param dtype  kBF16 or kF16.
[[nodiscard]] SumDrift sum_drift(std::size_t micro_batches, DType dtype, std::uint64_t seed);

/// @brief That of 1 to 1024 micro-batches in bf16 and f16 as a table.
[[nodiscard]] std::string sum_drift_table(std::uint64_t seed);

}  // namespace ultra::mixed_precision
