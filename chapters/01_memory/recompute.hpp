#pragma once
/// @file
/// Activation recomputation: layers that keep less and compute it again in the backward pass.
///
/// Exercise 01.5 (`./workbook check 01.5`). Body: solutions/01_memory/recompute.cpp.

#include <memory>
#include <vector>

#include "chapters/01_memory/recompute_mode.hpp"
#include "common/nn/layer_factory.hpp"

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

/// @brief Forgets all tensors that layers can make again (nn::Saved::remakeable), wherever they were
/// saved: their memory is free, and remake() knows where they belong.
/// @param kept  a tree of nn::Saved::Mode::kRemake; a tree that discards stays empty.
void forget_remakeable(nn::Saved& kept);

/// @brief Makes them again, puts each where it was, and lets go of what they were made from.
void remake(nn::Saved& kept);

/// @brief Selective recomputation: forgets the tensors of a block that are cheap to make again.
///
/// Which these are its layers say, whatever block it is: the outputs of norms and the products of
/// SwiGLU, element-wise work on tensors that stay. The outputs of matrix products and of attention
/// stay saved. Saves what the block does, in the subtree "block".
/// Cost: two norms and one SwiGLU per block.   Memory: tokens (2 h + f) elements per block less.
/// Source: Korthikanti et al. 2022, arXiv 2205.05198, sec. 5, applied to our block.
class SelectiveRecompute : public nn::Layer {
 public:
  /// @brief Wraps a block.
  explicit SelectiveRecompute(std::unique_ptr<nn::Layer> inner) : inner_(std::move(inner)) {}

  // [region selective]
  [[nodiscard]] Tensor forward(const Tensor& x, nn::Saved& saved) override {
    nn::Saved& kept = saved.child("block", nn::Saved::Mode::kRemake);
    Tensor y = inner_->forward(x, kept);
    forget_remakeable(kept);
    return y;
  }

  [[nodiscard]] Tensor backward(const Tensor& d_y, nn::Saved& saved) override {
    nn::Saved& kept = saved.child("block");
    remake(kept);
    return inner_->backward(d_y, kept);
  }
  // [/region]

  [[nodiscard]] std::vector<nn::Parameter*> parameters() override { return inner_->parameters(); }

 private:
  std::unique_ptr<nn::Layer> inner_;
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
