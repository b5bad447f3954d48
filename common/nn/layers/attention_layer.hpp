#pragma once
/// @file
/// Self-attention: projections around an attention core.

#include <memory>

#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/ops/attention.hpp"

namespace ultra::nn {

/// @brief Rotary positions and causal attention over whole sequences on one device.
///
/// Of several documents in a sequence (Pass::places), each query sees its own only; with a window
/// (sliding_window), of its own the last tokens only. Positions count on
/// from one document to the next: their differences, which rotary attention sees, stay the same.
/// Saves "query", "key" (both rotated), "value", "output" and "log_sum_exp" ([batch, heads, seq]).
class CausalAttention : public AttentionCore {
 public:
  /// @brief Attention over positions 0, 1, 2, ... of each sequence.
  explicit CausalAttention(const BuildContext& context);

  [[nodiscard]] Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                               Saved& saved) override;
  [[nodiscard]] QkvGradients backward(const Tensor& d_output, Saved& saved) override;

 private:
  [[nodiscard]] ops::AttentionOptions options(const Tensor& query, const Pass& pass) const;

  std::shared_ptr<const ops::RopeTable> rope_;
  std::size_t window_;
};

/// @brief Query, key and value projections, the attention core, and the output projection.
///
/// Of queries and keys each head is normalised in between, where the model has that (qk_norm).
/// Saved subtrees: "qkv" (its "input"), "query_norm" and "key_norm" where they are there, "core",
/// "output" (its "input" is the core's "output").
/// Source of the norms: Henry et al. 2020, "Query-Key Normalization for Transformers", arXiv 2010.04245,
/// with an RMSNorm in place of their l2 norm.
class SelfAttention : public Layer {
 public:
  /// @param layer  index of the block, for the names of the weights.
  SelfAttention(const BuildContext& context, std::size_t layer);

  [[nodiscard]] Tensor forward(const Tensor& x, Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, Saved& saved) override;
  [[nodiscard]] std::vector<Parameter*> parameters() override;

 private:
  std::size_t head_dim_;
  std::unique_ptr<Projections> qkv_;
  std::unique_ptr<Layer> query_norm_;  // null: none
  std::unique_ptr<Layer> key_norm_;
  std::unique_ptr<AttentionCore> core_;
  std::unique_ptr<Layer> output_;
};

}  // namespace ultra::nn
