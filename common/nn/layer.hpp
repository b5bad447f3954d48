#pragma once
/// @file
/// The kinds of layer that a model is made of.

#include <span>
#include <vector>

#include "common/nn/parameter.hpp"
#include "common/nn/saved.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::nn {

/// @brief Anything that owns parameters.
class Module {
 public:
  virtual ~Module() = default;

  /// @brief The parameters in the order in which the forward pass uses them.
  [[nodiscard]] virtual std::vector<Parameter*> parameters() { return {}; }
};

/// @brief One activation in, one out: norms, row-parallel linears, feed-forward parts, blocks.
class Layer : public Module {
 public:
  /// @brief The layer's output; `saved` receives what backward needs.
  /// @param x  [batch, seq, features].
  [[nodiscard]] virtual Tensor forward(const Tensor& x, Saved& saved) = 0;

  /// @brief The gradient of the input; adds the gradients of the parameters; consumes `saved`.
  /// @param d_y  gradient of the output, of its shape.
  [[nodiscard]] virtual Tensor backward(const Tensor& d_y, Saved& saved) = 0;
};

/// @brief Several linear maps of one input: query/key/value, or gate/up.
///
/// They are one layer because they share the input: it is saved once, its gradient is summed inside
/// the matrix products, and a tensor-parallel version communicates once for all of them.
class Projections : public Module {
 public:
  /// @brief One output per map.
  /// @param x  [batch, seq, in_features].
  [[nodiscard]] virtual std::vector<Tensor> forward(const Tensor& x, Saved& saved) = 0;

  /// @brief The gradient of the input, summed over the maps.
  /// @param d_y  gradient of each output, in the order of forward.
  [[nodiscard]] virtual Tensor backward(std::span<const Tensor> d_y, Saved& saved) = 0;
};

/// @brief What attends to what.
struct Qkv {
  Tensor query;  ///< [batch, seq, heads, head_dim], rotated
  Tensor key;    ///< [batch, seq, kv_heads, head_dim], rotated
  Tensor value;  ///< [batch, seq, kv_heads, head_dim]
};

/// @brief Gradients of an attention core's inputs.
struct QkvGradients {
  Tensor d_query;  ///< [batch, seq, heads, head_dim]
  Tensor d_key;    ///< [batch, seq, kv_heads, head_dim]
  Tensor d_value;  ///< [batch, seq, kv_heads, head_dim]
};

/// @brief Attention itself, between its projections: knows the positions of this rank's tokens.
class AttentionCore : public Module {
 public:
  /// @brief Attends; rotates query and key by their positions in place. Value may be the key itself: then
  /// values are the rotated keys.
  /// @param query  [batch, seq, heads, head_dim].
  /// @param key    [batch, seq, kv_heads, head_dim].
  /// @param value  [batch, seq, kv_heads, head_dim].
  /// @return [batch, seq, heads, head_dim]; stays saved, so the caller must not overwrite it.
  [[nodiscard]] virtual Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                       Saved& saved) = 0;

  /// @brief Gradients of the unrotated query, key and value. Where value was the key, that of the key may
  /// be the sum of both, and that of the value undefined.
  [[nodiscard]] virtual QkvGradients backward(const Tensor& d_output, Saved& saved) = 0;
};

/// @brief Tokens to vectors.
class TokenEmbedding : public Module {
 public:
  /// @brief [batch, seq] of i32 to [batch, seq, hidden].
  [[nodiscard]] virtual Tensor forward(const Tensor& tokens, Saved& saved) = 0;

  /// @brief Adds the gradient of the table.
  virtual void backward(const Tensor& d_y, Saved& saved) = 0;
};

/// @brief Logits and targets to the loss.
class LossLayer : public Module {
 public:
  /// @brief This rank's share of the mean loss; overwrites the logits.
  /// @param logits      [batch, seq, vocab].
  /// @param targets     [batch, seq] of i32.
  /// @param normalizer  tokens of the whole global batch.
  [[nodiscard]] virtual double forward(const Tensor& logits, const Tensor& targets,
                                       double normalizer, Saved& saved) = 0;

  /// @brief The gradient of the logits, [batch, seq, vocab].
  [[nodiscard]] virtual Tensor backward(Saved& saved) = 0;
};

}  // namespace ultra::nn
