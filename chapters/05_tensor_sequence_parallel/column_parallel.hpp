#pragma once
/// @file
/// Column parallelism: every rank has some of a matrix's outputs, and computes those of all tokens.
///
/// y = x W^T with W cut into blocks of outputs, W = [W_0; W_1; ...]: y_r = x W_r^T needs nothing from
/// other ranks once x is there. Backward, x has one gradient, and every rank has the part of it that its
/// outputs give: d_x = sum_r d_y_r W_r.
///
/// Forward: Region::enter; backward: Region::enter_backward (Megatron-LM's *f*).
/// Exercise 05.1 (`./workbook check 05.1`).
/// Body: solutions/05_tensor_sequence_parallel/column_parallel.cpp.
/// Source: Shoeybi et al. 2019, "Megatron-LM", arXiv 1909.08053, section 3, figure 3.

#include <memory>
#include <utility>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/region.hpp"
#include "common/nn/layer.hpp"

namespace ultra::tensor_parallel {

/// @brief Linear maps of one input, of each of which this rank has some outputs.
///
/// Saves "input", as it came: with sequence parallelism a rank keeps its tokens only, and gathers them
/// again in the backward pass.
/// Cost: that of the region's enter() and enter_backward(), once for all maps; and another enter() in the
/// backward pass.
class ColumnParallelProjections : public nn::Projections {
 public:
  /// @param weights  [out_features of this rank, in_features] each.
  ColumnParallelProjections(std::vector<std::unique_ptr<nn::Parameter>> weights,
                            std::shared_ptr<Region> region)
      : owned_(std::move(weights)), region_(std::move(region)) {
    for (const auto& weight : owned_) weights_.push_back(weight.get());
  }

  /// @brief One map by a weight that another layer owns.
  /// @param weight  [out_features of this rank, in_features]; outlives this.
  ColumnParallelProjections(nn::Parameter& weight, std::shared_ptr<Region> region)
      : weights_({&weight}), region_(std::move(region)) {}

  /// @brief This rank's outputs of each map, of all tokens.
  /// @param x  [batch, local_seq, in_features].
  /// @return [batch, seq, out_features of this rank] each.
  [[nodiscard]] std::vector<Tensor> forward(const Tensor& x, nn::Saved& saved) override;

  /// @brief The gradient of this rank's tokens of the input. While that is computed, the input enters
  /// again; while it is under way, the weights' gradients are made. The last map's first, as everywhere.
  /// @param d_y  [batch, seq, out_features of this rank] each.
  /// @return [batch, local_seq, in_features].
  [[nodiscard]] Tensor backward(std::span<const Tensor> d_y, nn::Saved& saved) override;

  [[nodiscard]] std::vector<nn::Parameter*> parameters() override { return weights_; }

 protected:
  std::vector<std::unique_ptr<nn::Parameter>> owned_;  ///< those that are this layer's
  std::vector<nn::Parameter*> weights_;                ///< of each map
  std::shared_ptr<Region> region_;                     ///< what happens around the products
};

}  // namespace ultra::tensor_parallel
