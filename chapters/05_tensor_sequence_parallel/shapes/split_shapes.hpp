#pragma once
/// @file
/// The answer to --shapes: what each rank has of each tensor, written down while a split block runs.

#include <string>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/options/tensor_parallel_options.hpp"
#include "chapters/05_tensor_sequence_parallel/shapes/block_shapes.hpp"

namespace ultra::tensor_parallel {

/// @brief Runs a block forward and backward on tp ranks of this process, and returns the rows of rank 0.
/// @throws ConfigError when the model cannot be split; InternalError when a shape is not what the layout
/// says, on any rank.
[[nodiscard]] std::vector<BlockShapeRow> run_split_block(const BlockShapesRequest& request);

/// @brief The answer for a model.
/// @param shapes  not kNone.
/// @throws ConfigError when the model cannot be split.
[[nodiscard]] std::string describe_shapes(Shapes shapes, const nn::ModelConfig& model,
                                          const memory::MicroBatch& batch,
                                          const TensorParallelLayout& layout);

}  // namespace ultra::tensor_parallel
