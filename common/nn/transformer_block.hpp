#pragma once
/// @file
/// One transformer block, and blocks in sequence.

#include <memory>
#include <vector>

#include "common/nn/hooks.hpp"
#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::nn {

/// @brief x + attention(norm(x)), then the same with the feed-forward part.
///
/// Saved subtrees: "attention_norm", "attention", "ffn_norm", "feed_forward".
class TransformerBlock : public Layer {
 public:
  /// @param layer  index of the block, for the names of the weights.
  TransformerBlock(const BuildContext& context, std::size_t layer);

  [[nodiscard]] Tensor forward(const Tensor& x, Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, Saved& saved) override;
  [[nodiscard]] std::vector<Parameter*> parameters() override;

 private:
  std::unique_ptr<Layer> attention_norm_;
  std::unique_ptr<Layer> attention_;
  std::unique_ptr<Layer> ffn_norm_;
  std::unique_ptr<Layer> feed_forward_;
};

/// @brief Layers one after the other. Saved subtree i belongs to layer i.
class Sequential : public Layer {
 public:
  /// @brief Takes over the layers.
  explicit Sequential(std::vector<std::unique_ptr<Layer>> layers);

  [[nodiscard]] Tensor forward(const Tensor& x, Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, Saved& saved) override;
  [[nodiscard]] std::vector<Parameter*> parameters() override;

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
};

/// @brief A block within the hooks of its model.
class HookedBlock : public Layer {
 public:
  /// @param part   of the model: which the block is.
  /// @param hooks  shared by all parts of the model, to which others are added later.
  HookedBlock(std::size_t part, std::unique_ptr<Layer> block,
              std::shared_ptr<const PartHooks> hooks);

  [[nodiscard]] Tensor forward(const Tensor& x, Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, Saved& saved) override;
  [[nodiscard]] std::vector<Parameter*> parameters() override;

 private:
  std::size_t part_;
  std::unique_ptr<Layer> block_;
  std::shared_ptr<const PartHooks> hooks_;
};

}  // namespace ultra::nn
