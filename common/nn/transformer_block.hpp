#pragma once
/// @file
/// One transformer block, and blocks in sequence.

#include <functional>
#include <memory>
#include <vector>

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

  /// @brief The norm in front of attention.
  [[nodiscard]] Layer& attention_norm() { return *attention_norm_; }
  /// @brief The norm in front of the feed-forward part.
  [[nodiscard]] Layer& ffn_norm() { return *ffn_norm_; }

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

/// @brief What to call around the passes of each block; empty functions are not called.
///
/// A block that is recomputed runs its forward pass, and these calls, again within backward.
struct BlockHooks {
  std::function<void(std::size_t layer)> before_forward;   ///< before block `layer` runs forward
  std::function<void(std::size_t layer)> after_forward;    ///< after it has
  std::function<void(std::size_t layer)> before_backward;  ///< before block `layer` runs backward
  std::function<void(std::size_t layer)> after_backward;   ///< after it has
};

/// @brief A block with calls around its passes.
class HookedBlock : public Layer {
 public:
  /// @param hooks  shared by all blocks of a model, which adds to them later.
  HookedBlock(std::size_t layer, std::unique_ptr<Layer> block,
              std::shared_ptr<const std::vector<BlockHooks>> hooks);

  [[nodiscard]] Tensor forward(const Tensor& x, Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, Saved& saved) override;
  [[nodiscard]] std::vector<Parameter*> parameters() override;

 private:
  void call(std::function<void(std::size_t)> BlockHooks::*hook) const;

  std::size_t layer_;
  std::unique_ptr<Layer> block_;
  std::shared_ptr<const std::vector<BlockHooks>> hooks_;
};

}  // namespace ultra::nn
