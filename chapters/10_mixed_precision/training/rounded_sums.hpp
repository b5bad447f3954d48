#pragma once
/// @file
/// Layers whose sums are rounded to two bytes after every addition: to see why they are not.
///
/// | sum                     | over       | in a training                                     |
/// |-------------------------|------------|---------------------------------------------------|
/// | mean square of a norm   | features   | f32; here each square and each partial sum rounded |
/// | denominator of the loss | vocabulary | f32; here each term, partial sum and logarithm rounded |
/// | softmax of attention    | sequence   | f32; here every operation rounded (rounded_attention) |

#include <memory>
#include <string>
#include <string_view>

#include "common/nn/layer_factory.hpp"

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

}  // namespace ultra::mixed_precision
