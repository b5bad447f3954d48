#pragma once
/// @file
/// Activation recomputation: layers that keep less and compute it again in the backward pass.
///
/// Exercise 01.5 (`./workbook check 01.5`).

#include <memory>
#include <vector>

#include "chapters/01_memory/recompute_mode.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/transformer_block.hpp"

namespace ultra::memory {

/// @brief Full recomputation: keeps only the input of the layer that it wraps.
///
/// Backward runs the wrapped layer's forward pass again, for the same micro-batch and this time
/// keeping its activations (nn::Saved::recomputing), and then its backward pass. Saves "input".
/// Cost: one more forward pass of the wrapped layer.
/// Memory: tokens h elements between the passes instead of all of the layer's activations.
/// Source: Chen et al. 2016, "Training deep nets with sublinear memory cost", arXiv 1604.06174.
class FullRecompute : public nn::Layer {
 public:
  /// @brief Wraps one block, or several in sequence.
  explicit FullRecompute(std::unique_ptr<nn::Layer> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] Tensor forward(const Tensor& x, nn::Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, nn::Saved& saved) override;
  [[nodiscard]] std::vector<nn::Parameter*> parameters() override { return inner_->parameters(); }

 private:
  std::unique_ptr<nn::Layer> inner_;
};

/// @brief Selective recomputation: drops the tensors of a block that are cheap to compute again.
///
/// These are the outputs of the two norms ("attention/qkv/input", "feed_forward/gate_up/input") and
/// the SwiGLU product ("feed_forward/down/input"): element-wise work on tensors that stay. The
/// outputs of matrix products and of attention stay saved.
/// Cost: two norms and one SwiGLU per block.   Memory: tokens (2 h + f) elements per block less.
/// Source: Korthikanti et al. 2022, arXiv 2205.05198, sec. 5, applied to our block.
class SelectiveRecompute : public nn::Layer {
 public:
  /// @brief Wraps a block.
  explicit SelectiveRecompute(std::unique_ptr<nn::TransformerBlock> block)
      : block_(std::move(block)) {}

  [[nodiscard]] Tensor forward(const Tensor& x, nn::Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, nn::Saved& saved) override;
  [[nodiscard]] std::vector<nn::Parameter*> parameters() override { return block_->parameters(); }

 private:
  std::unique_ptr<nn::TransformerBlock> block_;
};

/// @brief Wraps a factory so that the model's blocks recompute as the configuration says.
class RecomputeFactory : public nn::FactoryWrapper {
 public:
  /// @param inner  must outlive this factory.
  /// @throws ConfigError when the configuration is not valid.
  RecomputeFactory(nn::LayerFactory& inner, const RecomputeConfig& config);

  [[nodiscard]] std::unique_ptr<nn::Layer> block(const nn::BuildContext& context,
                                                 std::size_t layer) override;
  [[nodiscard]] std::unique_ptr<nn::Layer> stack(
      const nn::BuildContext& context, std::vector<std::unique_ptr<nn::Layer>> blocks) override;

 private:
  RecomputeConfig config_;
};

}  // namespace ultra::memory
