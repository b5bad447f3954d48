#pragma once
/// @file
/// The answer to --shapes: what each rank has of each tensor, written down while a split block runs.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/options/tensor_parallel_options.hpp"
#include "chapters/05_tensor_sequence_parallel/shapes/block_shapes.hpp"
#include "common/base/json.hpp"

namespace ultra::tensor_parallel {

/// @brief "enter TP", "TP region", "exit TP" or "SP region".
[[nodiscard]] std::string_view to_string(BlockRegion region);

/// @brief "whole", "heads", "ffn", "vocabulary" or "sequence".
[[nodiscard]] std::string_view to_string(Placement placement);

/// @brief The rows as lines for the terminal, one per tensor, under the sizes that they are made of.
[[nodiscard]] std::string format_block_shapes(const BlockShapesRequest& request,
                                              std::span<const BlockShapeRow> rows);

/// @brief The rows of one layout of a model.
struct LayoutRows {
  TensorParallelLayout layout;      ///< how it is split
  std::vector<BlockShapeRow> rows;  ///< what that makes of its shapes
};

/// @brief Layouts of one model side by side, one line per step of the forward pass: how its first
/// input and its first output are split.
/// @param layouts  at least one; the same steps in each.
/// Source: the Ultra-Scale Playbook, "Sequence parallelism", table of shapes.
[[nodiscard]] std::string format_comparison(std::span<const LayoutRows> layouts);

/// @brief The rows as a JSON array of objects: "pass", "layer", "step", "region", "inputs",
/// "outputs", "weights"; a tensor is "name", "local", "whole", "placement", "split", "words".
[[nodiscard]] Json block_shapes_to_json(std::span<const BlockShapeRow> rows);

/// @brief Runs a block forward and backward on tp ranks of this process, and returns the rows of rank 0.
/// @throws ConfigError when the model cannot be split; InternalError when a shape is not what the layout
/// says, on any rank.
[[nodiscard]] std::vector<BlockShapeRow> run_split_block(const BlockShapesRequest& request);

/// @brief The answer for a model.
/// @param shapes  not kNone.
/// @throws ConfigError when the model cannot be split.
[[nodiscard]] std::string describe_shapes(Shapes shapes, const nn::ModelConfig& model,
                                          const memory::BatchShape& batch,
                                          const TensorParallelLayout& layout);

}  // namespace ultra::tensor_parallel
