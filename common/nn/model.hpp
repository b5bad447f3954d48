#pragma once
/// @file
/// The Llama-style model, or any range of its layers.

#include <cstdint>
#include <memory>
#include <vector>

#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/model_config.hpp"
#include "common/nn/transformer_block.hpp"

namespace ultra::nn {

/// @brief Which part of the model to build: a pipeline stage, or all of it.
struct StageSpec {
  Range layers;               ///< blocks [begin, end) of the whole model
  bool has_embedding = true;  ///< begins with the token table
  bool has_head = true;       ///< ends with the final norm, the output projection and the loss

  /// @brief All layers, with embedding and head.
  [[nodiscard]] static StageSpec whole(const ModelConfig& config);
};

/// @brief Token embedding, transformer blocks, final norm, output projection and loss.
///
/// One micro-batch: `logits = forward(tokens, saved)`, `loss(logits, targets, ..., saved)`,
/// `backward(saved)`. A stage without embedding takes hidden states [batch, seq, hidden], a stage
/// without head returns them, and its backward starts from their gradient.
class Model {
 public:
  /// @brief Builds the stage from the factory's parts.
  /// @throws ConfigError when the dimensions make no model or the layers are out of range.
  Model(const ModelConfig& config, const Device& device, DType dtype, std::uint64_t seed,
        LayerFactory& factory, const StageSpec& stage);

  /// @brief Builds the whole model from the factory's parts.
  Model(const ModelConfig& config, const Device& device, DType dtype, std::uint64_t seed,
        LayerFactory& factory);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// @brief Logits [batch, seq, vocab] with a head, else hidden states [batch, seq, hidden].
  /// @param input  tokens [batch, seq] of i32 with an embedding, else hidden states.
  /// @throws ShapeError when a sequence is longer than config.max_seq_len.
  [[nodiscard]] Tensor forward(const Tensor& input, Saved& saved);

  /// @brief This micro-batch's share of the mean loss; overwrites the logits.
  /// @param targets     [batch, seq] of i32.
  /// @param normalizer  number of tokens of the whole global batch.
  [[nodiscard]] double loss(const Tensor& logits, const Tensor& targets, double normalizer,
                            Saved& saved);

  /// @brief Adds all gradients of a stage with a head, starting at the loss.
  /// @return the gradient of the input hidden states; undefined with an embedding.
  Tensor backward(Saved& saved);

  /// @brief Adds all gradients of a stage without head.
  /// @param d_output  gradient of the hidden states that forward returned.
  /// @return the gradient of the input hidden states; undefined with an embedding.
  Tensor backward(const Tensor& d_output, Saved& saved);

  /// @brief The parameters in forward order.
  [[nodiscard]] const std::vector<Parameter*>& parameters() const { return parameters_; }

  /// @brief Those of one block, in forward order.
  /// @param layer  index of the block in the whole model; one of this stage's.
  [[nodiscard]] const std::vector<Parameter*>& block_parameters(std::size_t layer) const;

  /// @brief Frees all gradients.
  void drop_grads();

  /// @brief Puts all weight-gradient work off to `queue`; a null pointer ends that.
  void defer_grads_to(DeferredGradients* queue);

  /// @brief Calls these around the passes of each block from now on.
  void add_block_hooks(BlockHooks hooks) { hooks_->push_back(std::move(hooks)); }

  /// @brief Dimensions of the whole model.
  [[nodiscard]] const ModelConfig& config() const { return config_; }
  /// @brief Where the tensors live.
  [[nodiscard]] const Device& device() const { return device_; }
  /// @brief Number of elements in the parameters that this stage holds.
  [[nodiscard]] std::size_t parameter_count() const;

 private:
  ModelConfig config_;
  Device device_;
  StageSpec stage_;
  std::shared_ptr<std::vector<BlockHooks>> hooks_;
  std::unique_ptr<TokenEmbedding> embedding_;
  std::unique_ptr<Layer> blocks_;
  std::unique_ptr<Layer> final_norm_;
  std::unique_ptr<Projections> head_;
  std::unique_ptr<LossLayer> loss_;
  std::vector<Parameter*> parameters_;
  std::vector<std::vector<Parameter*>> block_parameters_;  // of each block of the stage
};

}  // namespace ultra::nn
