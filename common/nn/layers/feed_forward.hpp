#pragma once
/// @file
/// The SwiGLU feed-forward part.

#include <cstddef>
#include <memory>
#include <string>

#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::nn {

/// @brief down(silu(gate(x)) * up(x)).
///
/// Saves "gate" and "up"; subtrees "gate_up" (its "input") and "down" (its "input" is the product,
/// which is remakeable).
class SwigluFeedForward : public Layer {
 public:
  /// @param layer  index of the block, for the names of the weights.
  SwigluFeedForward(const BuildContext& context, std::size_t layer);
  /// @param prefix  with which the names of the weights begin: "model.layers.0.mlp".
  /// @param ffn     width inside.
  SwigluFeedForward(const BuildContext& context, const std::string& prefix, std::size_t ffn);

  [[nodiscard]] Tensor forward(const Tensor& x, Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, Saved& saved) override;
  [[nodiscard]] std::vector<Parameter*> parameters() override;

 private:
  std::unique_ptr<Projections> gate_up_;
  std::unique_ptr<Layer> down_;
};

}  // namespace ultra::nn
