#pragma once
/// @file
/// The Llama-style model, or any range of its layers.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/nn/hooks.hpp"
#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/layers/chunked_head.hpp"
#include "common/nn/layers/multi_token_prediction.hpp"
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

/// The group of the two stages that hold the token table, when the end of the model reads it too: as the
/// output projection, or for the token after next.
inline constexpr std::string_view kTiedGroup = "tied embeddings";

/// @brief A part of a model that a pass runs through in one go.
struct ModelPart {
  std::string name;                    ///< "embedding", "block 3", "final norm" or "head"
  std::vector<Parameter*> parameters;  ///< in forward order
};

/// @brief A parameter of the whole model, as files and other ranks know it.
struct NamedShape {
  std::string name;  ///< Hugging Face's
  Shape shape;       ///< of the whole weight
};

/// @brief Token embedding, transformer blocks, final norm, output projection and loss; and the module
/// that predicts the token after next, where the model has one and the pass has Pass::next.
///
/// One micro-batch: `logits = forward(tokens, saved)`, `loss(logits, targets, ..., saved)`,
/// `backward(saved)`. A stage without embedding takes hidden states [batch, seq, hidden], a stage
/// without head returns them, and its backward starts from their gradient.
class Model {
 public:
  /// @brief Builds the stage from the factory's parts.
  /// @param values  whether its weights have memory from the start.
  /// @throws ConfigError when the dimensions make no model or the layers are out of range.
  Model(const ModelConfig& config, const Device& device, const Precision& precision,
        std::uint64_t seed, LayerFactory& factory, const StageSpec& stage,
        Values values = Values::kAllocated);

  /// @brief Builds the whole model from the factory's parts.
  Model(const ModelConfig& config, const Device& device, const Precision& precision,
        std::uint64_t seed, LayerFactory& factory);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// @brief Logits [batch, seq, vocab] with a head, else hidden states [batch, seq, hidden]: with a head
  /// in pieces (ModelConfig::head_chunks), too, of which loss() computes the rest.
  /// @param input  tokens [batch, seq] of i32 with an embedding, else hidden states.
  /// @throws ShapeError when a sequence is longer than config.max_seq_len.
  [[nodiscard]] Tensor forward(const Tensor& input, Saved& saved);

  /// @brief This micro-batch's share of the mean loss; overwrites the logits.
  /// @param logits      what forward() has returned.
  /// @param targets     [batch, seq] of i32.
  /// @param normalizer  number of tokens of the whole global batch.
  /// @return that of the next tokens; that of the tokens after next is added to Pass::next.
  [[nodiscard]] double loss(const Tensor& logits, const Tensor& targets, double normalizer,
                            Saved& saved);

  /// @brief Adds all gradients of a stage with a head, starting at the loss.
  /// @return the gradient of the input hidden states; undefined with an embedding.
  Tensor backward(Saved& saved);

  /// @brief Adds all gradients of a stage without head.
  /// @param d_output  gradient of the hidden states that forward returned.
  /// @return the gradient of the input hidden states; undefined with an embedding.
  Tensor backward(const Tensor& d_output, Saved& saved);

  /// @brief The parameters in the order in which a forward pass first uses them, each once.
  [[nodiscard]] const std::vector<Parameter*>& parameters() const { return parameters_; }

  /// @brief How many of the layers use a parameter: as many contributions a backward pass makes to
  /// its gradient.
  [[nodiscard]] std::size_t uses(const Parameter& parameter) const;

  /// @brief Whether a block is this stage's. That of the token after next is number num_layers.
  [[nodiscard]] bool has_block(std::size_t layer) const;

  /// @brief Those of one block, in forward order; of number num_layers with the parameters around it.
  /// @param layer  index of the block in the whole model; one of this stage's.
  [[nodiscard]] const std::vector<Parameter*>& block_parameters(std::size_t layer) const;

  /// @brief Which part of the whole model this is.
  [[nodiscard]] const StageSpec& stage() const { return stage_; }

  /// @brief What the passes run through: the embedding if there is one, each block, the head if
  /// there is one. A head whose table another stage has too is two parts: final norm and table; with a
  /// module for the token after next they are the table and all else. The parts' parameters, one after the other, are those of the model; one that several parts use
  /// belongs to the first.
  [[nodiscard]] const std::vector<ModelPart>& parts() const { return parts_; }

  /// @brief Which of the parts are blocks.
  [[nodiscard]] Range block_parts() const;

  /// @brief Frees all gradients.
  void drop_grads();

  /// @brief Puts all weight-gradient work off to `queue`; a null pointer ends that.
  void defer_grads_to(DeferredGradients* queue);

  /// @brief Puts a hook around the passes of each part from now on, until its handle is gone.
  [[nodiscard]] HookHandle add_part_hook(PartHook hook) { return hooks_->add(std::move(hook)); }

  /// @brief Dimensions of the whole model.
  [[nodiscard]] const ModelConfig& config() const { return config_; }
  /// @brief Where the tensors live.
  [[nodiscard]] const Device& device() const { return device_; }
  /// @brief Number of elements in the parameters that this stage holds.
  [[nodiscard]] std::size_t parameter_count() const;

 private:
  void make_head(const BuildContext& context);
  void add_head_parts();
  [[nodiscard]] TokenEmbedding& table() { return embedding_ ? *embedding_ : *table_copy_; }
  void forward_next(const Tensor& normed, Saved& saved);
  [[nodiscard]] Tensor backward_next(const Tensor& d_normed, Saved& saved);
  void add_part(std::string name, const std::vector<Parameter*>& parameters);
  [[nodiscard]] Range head_parts() const { return {block_parts().end, parts_.size()}; }

  ModelConfig config_;
  Device device_;
  StageSpec stage_;
  std::shared_ptr<PartHooks> hooks_;
  std::unique_ptr<TokenEmbedding> embedding_;
  std::unique_ptr<Layer> blocks_;
  std::unique_ptr<Layer> final_norm_;
  std::unique_ptr<Projections> head_;
  std::unique_ptr<LossLayer> loss_;
  std::unique_ptr<TokenEmbedding> table_copy_;  // of a stage without embedding; null: none is read
  std::optional<ChunkedHead> chunked_;          // none: all tokens at once
  std::unique_ptr<MultiTokenPrediction> mtp_;
  std::vector<Parameter*> parameters_;
  std::vector<Parameter*> mtp_parameters_;
  std::map<const Parameter*, std::size_t> uses_;
  std::vector<ModelPart> parts_;
};

/// @brief The parameters of the whole model, in forward order: the same list on every rank,
/// whichever layers it has. Takes no memory for weights.
[[nodiscard]] std::vector<NamedShape> named_shapes(const ModelConfig& config,
                                                   LayerFactory& factory);

}  // namespace ultra::nn
