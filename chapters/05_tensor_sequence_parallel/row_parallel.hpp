#pragma once
/// @file
/// Row parallelism: every rank has some of a matrix's inputs, and computes its part of every output.
///
/// y = x W^T with W cut into blocks of inputs, W = [W_0, W_1, ...], and x in the same way: y = sum_r x_r
/// W_r^T. So it takes the outputs of a column-parallel matrix as they are, and the two together
/// need only one sum over the ranks, after it. Backward, d_x_r = d_y W_r needs nothing from other
/// ranks.
///
/// Forward: Region::leave; backward: Region::leave_backward (Megatron-LM's *g*).
/// Exercise 05.2 (`./workbook check 05.2`).
/// Body: solutions/05_tensor_sequence_parallel/row_parallel.cpp.
/// Source: Shoeybi et al. 2019, "Megatron-LM", arXiv 1909.08053, section 3, figure 3.

#include <memory>
#include <utility>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/region.hpp"
#include "common/nn/layer.hpp"
#include "common/ops/matmul.hpp"

namespace ultra::tensor_parallel {

using ops::add_bias;
using ops::sum_rows_into;

/// @brief A linear map of whose inputs this rank has some. Saves "input".
///
/// Cost: that of the region's leave() and leave_backward().
class RowParallelLinear : public nn::Layer {
 public:
  /// @param weight  [out_features, in_features of this rank].
  /// @param bias    [out_features], whole on every rank; null: none.
  RowParallelLinear(std::unique_ptr<nn::Parameter> weight, std::unique_ptr<nn::Parameter> bias,
                    std::shared_ptr<Region> region)
      : weight_(std::move(weight)), bias_(std::move(bias)), region_(std::move(region)) {}

  /// @brief The outputs of this rank's tokens.
  /// @param x  [batch, seq, in_features of this rank].
  /// @return [batch, local_seq, out_features].
  [[nodiscard]] Tensor forward(const Tensor& x, nn::Saved& saved) override;

  /// @brief The gradient of this rank's inputs, of all tokens. Of the bias, a rank has the gradient that
  /// its tokens give.
  /// @param d_y  [batch, local_seq, out_features].
  /// @return [batch, seq, in_features of this rank].
  [[nodiscard]] Tensor backward(const Tensor& d_y, nn::Saved& saved) override;

  [[nodiscard]] std::vector<nn::Parameter*> parameters() override {
    if (!bias_) return {weight_.get()};
    return {weight_.get(), bias_.get()};
  }

 protected:
  std::unique_ptr<nn::Parameter> weight_;  ///< some of its columns
  std::unique_ptr<nn::Parameter> bias_;    ///< null: none
  std::shared_ptr<Region> region_;         ///< what happens around the product
};

}  // namespace ultra::tensor_parallel
