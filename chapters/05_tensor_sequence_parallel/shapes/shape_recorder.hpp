#pragma once
/// @file
/// ShapeRecorder: writes down the shapes that go through the parts of a model.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/nn/layer_factory.hpp"

namespace ultra::tensor_parallel {

/// @brief The parts of a model whose shapes are written down.
enum class PartKind : std::uint8_t {
  kEmbedding,      ///< LayerFactory::embedding
  kNorm,           ///< LayerFactory::norm
  kColumnLinear,   ///< LayerFactory::column_linear
  kAttentionCore,  ///< LayerFactory::attention_core
  kRowLinear,      ///< LayerFactory::row_linear
  kLoss            ///< LayerFactory::loss
};

/// @brief The two directions in which a part runs.
enum class Pass : std::uint8_t {
  kForward,  ///< inputs to outputs
  kBackward  ///< gradients of outputs to gradients of inputs, and of weights
};

/// @brief An activation, or its gradient, that a part was given or has made.
struct RecordedTensor {
  std::string name;  ///< "input", "query", ...; "d_" in front of a gradient
  Shape shape;       ///< on this rank

  bool operator==(const RecordedTensor&) const = default;
};

/// @brief A weight that a part used, or whose gradient it has added to.
struct RecordedWeight {
  std::string name;  ///< last word of the parameter's name: "q_proj"; "d_" in front of a gradient
  Shape shard;       ///< on this rank
  Shape whole;       ///< of the whole weight

  bool operator==(const RecordedWeight&) const = default;
};

/// @brief One pass of one part.
struct RecordedStep {
  PartKind kind = PartKind::kNorm;        ///< which part
  Pass pass = Pass::kForward;             ///< which direction
  std::optional<std::size_t> layer;       ///< index of its block; absent outside of blocks
  std::string name;                       ///< its weights' names, or "attention", or "loss"
  std::vector<RecordedTensor> inputs{};   ///< what it was given
  std::vector<RecordedTensor> outputs{};  ///< what it has made
  std::vector<RecordedWeight> weights{};  ///< backward: those that have a gradient by then
  Range moments{};                        ///< of the recorder's clock: begin and end; else zeros

  bool operator==(const RecordedStep&) const = default;
};

/// What counts while parts run: entries of a tape, for example.
using PartClock = std::function<std::size_t()>;

/// @brief Wraps a factory so that the parts it makes write down their shapes each time they run.
///
/// The parts pass everything through: same results, same saved activations. Wrapped around a
/// tensor-parallel factory, they see what it hands to the block: the shapes of one rank. A part that
/// runs again, for recomputation, is written down again.
class ShapeRecorder : public nn::FactoryWrapper {
 public:
  /// @param inner  the wrapped factory; must outlive this one.
  /// @param clock  what a step's moments are of; outlives the parts. Empty: nobody asks.
  explicit ShapeRecorder(nn::LayerFactory& inner, PartClock clock = {})
      : FactoryWrapper(inner), clock_(std::move(clock)) {}

  [[nodiscard]] std::unique_ptr<nn::Layer> norm(const nn::BuildContext& context,
                                                const nn::NormSpec& spec) override;
  [[nodiscard]] std::unique_ptr<nn::Projections> column_linear(
      const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) override;
  [[nodiscard]] std::unique_ptr<nn::Layer> row_linear(const nn::BuildContext& context,
                                                      const nn::LinearSpec& spec) override;
  [[nodiscard]] std::unique_ptr<nn::AttentionCore> attention_core(
      const nn::BuildContext& context) override;
  /// @brief Makes nothing of its own: parts that are asked for meanwhile belong to the block.
  [[nodiscard]] std::unique_ptr<nn::Layer> block(const nn::BuildContext& context,
                                                 std::size_t layer) override;
  [[nodiscard]] std::unique_ptr<nn::TokenEmbedding> embedding(
      const nn::BuildContext& context) override;
  [[nodiscard]] std::unique_ptr<nn::LossLayer> loss(const nn::BuildContext& context) override;

  /// @brief What has run so far, in that order.
  [[nodiscard]] const std::vector<RecordedStep>& steps() const { return *steps_; }
  /// @brief The same, which goes on as long as the parts, and may outlive all of them.
  [[nodiscard]] std::shared_ptr<const std::vector<RecordedStep>> shared_steps() const {
    return steps_;
  }

  /// @brief Forgets what has run so far.
  void clear() { steps_->clear(); }

 private:
  PartClock clock_;
  std::shared_ptr<std::vector<RecordedStep>> steps_ =
      std::make_shared<std::vector<RecordedStep>>();  // the parts may outlive the recorder
  std::optional<std::size_t> layer_;                  // of the block that is being built
};

}  // namespace ultra::tensor_parallel
