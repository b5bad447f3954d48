#pragma once
/// @file
/// The shapes of a block, step by step: where each tensor is whole, and where it is split along what.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/05_tensor_sequence_parallel/shapes/shape_recorder.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/model_config.hpp"

namespace ultra::tensor_parallel {

/// @brief Where in a block a step is, seen from the matrices that are split.
///
/// In the backward pass the way in is the way out: a column linear takes gradients of split tensors
/// and leaves the region with a whole one.
/// Source: the Ultra-Scale Playbook, "Sequence parallelism", table of shapes.
enum class BlockRegion : std::uint8_t {
  kEnter,   ///< in: a tensor that is whole, or split along the sequence; out: split by its features
  kInside,  ///< features are split, the sequence is whole
  kExit,    ///< in: split by features; out: whole, or split along the sequence
  kBetween  ///< features are whole; with sequence parallelism the sequence is split
};

/// @brief Along what a tensor or a weight is split.
enum class Placement : std::uint8_t {
  kWhole,       ///< every rank has all of it
  kHeads,       ///< each rank has some heads
  kFfn,         ///< each rank has a part of the width inside the feed-forward part
  kVocabulary,  ///< each rank has the logits, or the vectors, of some tokens of the vocabulary
  kSequence     ///< each rank has a part of each sequence
};

/// @brief A tensor or a weight, and what a rank has of it.
struct PlacedTensor {
  std::string name;            ///< as in RecordedTensor or RecordedWeight
  Shape local;                 ///< on a rank; as it was when the step ran
  Shape whole;                 ///< of the whole model, without padding
  Placement placement;         ///< along what it is split
  std::optional<int> split{};  ///< dimension that is split; absent when whole
  std::string words;           ///< the same for readers: "split by heads: h/t"

  bool operator==(const PlacedTensor&) const = default;
};

/// @brief A step along the block.
struct BlockShapeRow {
  Pass pass;                          ///< which direction
  std::optional<std::size_t> layer;   ///< index of the block; absent outside of blocks
  std::string step;                   ///< as RecordedStep::name
  BlockRegion region;                 ///< where in the block
  std::vector<PlacedTensor> inputs;   ///< what the step was given
  std::vector<PlacedTensor> outputs;  ///< what it has made
  std::vector<PlacedTensor> weights;  ///< those that it used; backward: their gradients
};

/// @brief What the shapes follow from.
struct BlockShapesRequest {
  nn::ModelConfig model;        ///< dimensions of the whole model
  TensorParallelLayout layout;  ///< how it is split
  memory::BatchShape batch;     ///< what one pass works on

  /// @brief Checks that the layout can split the model and the batch's sequences.
  /// @throws ConfigError with the equation that does not hold, its values and the flag to change.
  void validate() const;
};

/// @brief The recorded steps as rows, in their order.
///
/// Where tensors are split follows from the request, not from comparing sizes, which may be equal by
/// chance. Each recorded shape is then held against that.
/// @throws ConfigError when the request is not valid.
/// @throws InternalError naming step and tensor when a recorded shape is not what the layout says.
[[nodiscard]] std::vector<BlockShapeRow> block_shapes(const BlockShapesRequest& request,
                                                      std::span<const RecordedStep> steps);

/// @brief Runs a model of one block forward and backward, and returns its rows.
///
/// The tokens are zeros: shapes do not depend on them.
/// @param inner   makes the parts; num_layers of the request does not matter.
/// @param device  where the model is built.
/// Collective: every rank calls it when the factory's parts communicate.
/// @throws what block_shapes throws.
[[nodiscard]] std::vector<BlockShapeRow> run_block(const BlockShapesRequest& request,
                                                   nn::LayerFactory& inner, const Device& device);

}  // namespace ultra::tensor_parallel
