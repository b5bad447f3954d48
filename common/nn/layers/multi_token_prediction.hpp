#pragma once
/// @file
/// The module that predicts the token after next.

#include <memory>
#include <vector>

#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::nn {

/// @brief A token's hidden state and the embedding of the next token, to a hidden state from which the
/// head predicts the token after next.
///
/// y_i = norm(block(M [norm(Emb(t_{i+1})); norm(h_i)])), with a block like those of the model. Table and
/// head are the model's own, and h_i is what its head reads. Attention is causal here, too, so y_i knows
/// the tokens up to i + 1 and no others.
/// Saved subtrees: "enorm", "hnorm", "eh_proj", "block", "norm".
/// Source: arXiv 2412.19437, section 2.2, equations 21 to 23, with depth 1. Names of weights, and which of the
/// two halves comes first, are those of the checkpoint that was published with it.
class MultiTokenPrediction : public Module {
 public:
  /// @brief What a backward pass gives.
  struct Gradients {
    Tensor d_hidden;    ///< of the hidden states
    Tensor d_embedded;  ///< of the embeddings
  };

  /// @brief Builds it from the factory's parts, as block number num_layers.
  explicit MultiTokenPrediction(const BuildContext& context);

  /// @brief The normalised hidden states for the head, [batch, local_seq, hidden].
  /// @param hidden    [batch, local_seq, hidden], after the model's last norm.
  /// @param embedded  of the same shape: the next tokens.
  [[nodiscard]] Tensor forward(const Tensor& hidden, const Tensor& embedded, Saved& saved);

  /// @brief Adds the gradients of the parameters; consumes `saved`.
  [[nodiscard]] Gradients backward(const Tensor& d_y, Saved& saved);

  [[nodiscard]] std::vector<Parameter*> parameters() override;

 private:
  std::unique_ptr<Layer> embedding_norm_;
  std::unique_ptr<Layer> hidden_norm_;
  std::unique_ptr<Projections> projection_;
  std::unique_ptr<Layer> block_;
  std::unique_ptr<Layer> norm_;
};

}  // namespace ultra::nn
