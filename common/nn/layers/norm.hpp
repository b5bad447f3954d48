#pragma once
/// @file
/// RMSNorm as a layer.

#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::nn {

/// @brief RMSNorm over the innermost dimension with a learned weight, 1 at the start.
///
/// Saves "input" and "reciprocal_rms" ([batch, seq], or [batch, seq, heads]); its result is remakeable.
class RmsNorm : public Layer {
 public:
  /// @brief With a weight [hidden_size], or [head_dim] for each head of its input, or as the spec says.
  RmsNorm(const BuildContext& context, const NormSpec& spec);

  [[nodiscard]] Tensor forward(const Tensor& x, Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, Saved& saved) override;
  [[nodiscard]] std::vector<Parameter*> parameters() override;

 protected:
  /// @brief Returns d_x and writes d_weight, of the weight's shape; another implementation may override.
  [[nodiscard]] virtual Tensor gradients(const Tensor& d_y, const Tensor& x,
                                         const Tensor& reciprocal_rms,
                                         const Tensor& d_weight) const;

  /// @brief The learned weight.
  [[nodiscard]] const Parameter& weight() const { return weight_; }

 private:
  Parameter weight_;
  double epsilon_;
};

}  // namespace ultra::nn
