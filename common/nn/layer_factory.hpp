#pragma once
/// @file
/// LayerFactory: where a model's parts come from, and the seam at which parallelism is injected.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/nn/layer.hpp"
#include "common/nn/model_config.hpp"
#include "common/nn/precision.hpp"
#include "common/ops/rope.hpp"

namespace ultra::nn {

class LayerFactory;
class TransformerBlock;

/// @brief What every part of one model shares while it is built.
struct BuildContext {
  const ModelConfig& config;                   ///< dimensions of the whole model
  Device device;                               ///< where the tensors live
  Precision precision;                         ///< types of weights and activations
  std::uint64_t seed;                          ///< of the initial weights
  std::shared_ptr<const ops::RopeTable> rope;  ///< cosines and sines of all positions
  LayerFactory& factory;                       ///< the outermost factory: compound parts ask it
  Values values = Values::kAllocated;          ///< whether weights have memory from the start
};

/// @brief A linear map without bias, y = x W^T with W of shape [out_features, in_features].
struct LinearSpec {
  std::string name;              ///< of the weight
  std::size_t in_features;       ///< width of the input
  std::size_t out_features;      ///< width of the output
  double standard_deviation;     ///< of the initial weights
  std::size_t output_heads = 0;  ///< equal parts of the output that stay together; 0: none do
};

/// @brief What a norm is over.
enum class NormOver {
  kTokens,  ///< the hidden dimension of each token
  kHeads,   ///< each head of a query or a key, with one weight [head_dim] for all heads
};

/// @brief An RMSNorm with a weight.
struct NormSpec {
  std::string name;                   ///< of the weight
  NormOver over = NormOver::kTokens;  ///< its length is hidden_size, or head_dim
  std::size_t width = 0;              ///< its length where that differs; 0: as `over` says
};

/// @brief Makes the parts of a model.
///
/// A technique wraps a factory and overrides what it changes; wrappers compose. Compound parts
/// (block, attention, feed-forward) ask `context.factory`, the outermost wrapper, for their own
/// parts, so that each wrapper sees every request.
/// Bodies: DenseFactory beside it; chapters/05_tensor_sequence_parallel/tensor_parallel_factory.cpp
/// is one around another.
class LayerFactory {
 public:
  virtual ~LayerFactory() = default;

  /// @brief RMSNorm over the innermost dimension.
  [[nodiscard]] virtual std::unique_ptr<Layer> norm(const BuildContext& context,
                                                    const NormSpec& spec) = 0;
  /// @brief Linear maps that share their input; tensor parallelism splits their outputs.
  [[nodiscard]] virtual std::unique_ptr<Projections> column_linear(
      const BuildContext& context, const std::vector<LinearSpec>& specs) = 0;
  /// @brief A linear map; tensor parallelism splits its input.
  [[nodiscard]] virtual std::unique_ptr<Layer> row_linear(const BuildContext& context,
                                                          const LinearSpec& spec) = 0;
  /// @brief Linear maps that share their input, applied to each token by itself; tensor parallelism
  /// leaves them whole, like norms.
  [[nodiscard]] virtual std::unique_ptr<Projections> token_linear(
      const BuildContext& context, const std::vector<LinearSpec>& specs) = 0;
  /// @brief A layer that changes nothing, for what all heads of a token share. Tensor parallelism
  /// brings that to the ranks that have the heads, and adds up its gradient.
  [[nodiscard]] virtual std::unique_ptr<Layer> shared_by_heads(const BuildContext& context) = 0;
  /// @brief Attention between its projections.
  [[nodiscard]] virtual std::unique_ptr<AttentionCore> attention_core(
      const BuildContext& context) = 0;
  /// @brief The feed-forward part of a block.
  [[nodiscard]] virtual std::unique_ptr<Layer> feed_forward(const BuildContext& context,
                                                            std::size_t layer) = 0;
  /// @brief One transformer block.
  [[nodiscard]] virtual std::unique_ptr<Layer> block(const BuildContext& context,
                                                     std::size_t layer) = 0;
  /// @brief All blocks of the model (or stage) as one layer.
  [[nodiscard]] virtual std::unique_ptr<Layer> stack(
      const BuildContext& context, std::vector<std::unique_ptr<Layer>> blocks) = 0;
  /// @brief The token table.
  [[nodiscard]] virtual std::unique_ptr<TokenEmbedding> embedding(const BuildContext& context) = 0;
  /// @brief The output projection by the token table of the same stage.
  /// @param table  [vocab_size, hidden_size]; outlives the result.
  [[nodiscard]] virtual std::unique_ptr<Projections> tied_head(const BuildContext& context,
                                                               Parameter& table) = 0;
  /// @brief The loss.
  [[nodiscard]] virtual std::unique_ptr<LossLayer> loss(const BuildContext& context) = 0;
};

/// @brief The parts for one device.
class DenseFactory : public LayerFactory {
 public:
  [[nodiscard]] std::unique_ptr<Layer> norm(const BuildContext& context,
                                            const NormSpec& spec) override;
  [[nodiscard]] std::unique_ptr<Projections> column_linear(
      const BuildContext& context, const std::vector<LinearSpec>& specs) override;
  [[nodiscard]] std::unique_ptr<Layer> row_linear(const BuildContext& context,
                                                  const LinearSpec& spec) override;
  [[nodiscard]] std::unique_ptr<Projections> token_linear(
      const BuildContext& context, const std::vector<LinearSpec>& specs) override;
  [[nodiscard]] std::unique_ptr<Layer> shared_by_heads(const BuildContext& context) override;
  [[nodiscard]] std::unique_ptr<AttentionCore> attention_core(const BuildContext& context) override;
  [[nodiscard]] std::unique_ptr<Layer> feed_forward(const BuildContext& context,
                                                    std::size_t layer) override;
  [[nodiscard]] std::unique_ptr<Layer> block(const BuildContext& context,
                                             std::size_t layer) override;
  [[nodiscard]] std::unique_ptr<Layer> stack(const BuildContext& context,
                                             std::vector<std::unique_ptr<Layer>> blocks) override;
  [[nodiscard]] std::unique_ptr<TokenEmbedding> embedding(const BuildContext& context) override;
  [[nodiscard]] std::unique_ptr<Projections> tied_head(const BuildContext& context,
                                                       Parameter& table) override;
  [[nodiscard]] std::unique_ptr<LossLayer> loss(const BuildContext& context) override;
};

/// @brief A factory that passes every request on: the base of wrappers, which override a few.
class FactoryWrapper : public LayerFactory {
 public:
  /// @param inner  the wrapped factory; must outlive this one.
  explicit FactoryWrapper(LayerFactory& inner) : inner_(inner) {}

  [[nodiscard]] std::unique_ptr<Layer> norm(const BuildContext& context,
                                            const NormSpec& spec) override;
  [[nodiscard]] std::unique_ptr<Projections> column_linear(
      const BuildContext& context, const std::vector<LinearSpec>& specs) override;
  [[nodiscard]] std::unique_ptr<Layer> row_linear(const BuildContext& context,
                                                  const LinearSpec& spec) override;
  [[nodiscard]] std::unique_ptr<Projections> token_linear(
      const BuildContext& context, const std::vector<LinearSpec>& specs) override;
  [[nodiscard]] std::unique_ptr<Layer> shared_by_heads(const BuildContext& context) override;
  [[nodiscard]] std::unique_ptr<AttentionCore> attention_core(const BuildContext& context) override;
  [[nodiscard]] std::unique_ptr<Layer> feed_forward(const BuildContext& context,
                                                    std::size_t layer) override;
  [[nodiscard]] std::unique_ptr<Layer> block(const BuildContext& context,
                                             std::size_t layer) override;
  [[nodiscard]] std::unique_ptr<Layer> stack(const BuildContext& context,
                                             std::vector<std::unique_ptr<Layer>> blocks) override;
  [[nodiscard]] std::unique_ptr<TokenEmbedding> embedding(const BuildContext& context) override;
  [[nodiscard]] std::unique_ptr<Projections> tied_head(const BuildContext& context,
                                                       Parameter& table) override;
  [[nodiscard]] std::unique_ptr<LossLayer> loss(const BuildContext& context) override;

 protected:
  /// @brief The wrapped factory.
  [[nodiscard]] LayerFactory& inner() { return inner_; }

 private:
  LayerFactory& inner_;
};

}  // namespace ultra::nn
