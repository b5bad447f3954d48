#pragma once
/// @file
/// The backward pass of a linear map in two parts, of which the second can wait; and the layers that have it.
///
/// Exercise 07.4 (`./workbook check 07.4`). Body: solutions/07_pipeline_parallel/split_linear.cpp.
/// Source: Qi et al. 2023, "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 2.

#include <memory>
#include <span>
#include <vector>

#include "common/nn/layer_factory.hpp"
#include "common/nn/parameter.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::pipeline_parallel {

/// @brief The backward pass of linear maps of one input, y_i = x W_i^T: part B now, part W when it
/// is asked for.
///
/// A trainer with a zero-bubble schedule gives the weights a queue for their gradients' work
/// (nn::Parameter::defer_grads_to). Work that is to wait has to go through nn::Parameter::add_grad.
/// Without a queue the same call makes the gradient at once.
/// @param d_y      gradient of each output, [..., out_features_i].
/// @param x        [..., in_features]; what waits keeps it in memory.
/// @param weights  [out_features_i, in_features], in the order of d_y; outlive what waits.
/// @return the gradient of the input, summed over the maps, [..., in_features].
[[nodiscard]] Tensor split_backward(std::span<const Tensor> d_y, const Tensor& x,
                                    std::span<nn::Parameter* const> weights);

/// @brief Makes linear layers that run split_backward(): for ranks that hold whole matrices.
class SplitLinearFactory : public nn::FactoryWrapper {
 public:
  using FactoryWrapper::FactoryWrapper;

  [[nodiscard]] std::unique_ptr<nn::Projections> column_linear(
      const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) override;
  [[nodiscard]] std::unique_ptr<nn::Layer> row_linear(const nn::BuildContext& context,
                                                      const nn::LinearSpec& spec) override;
};

}  // namespace ultra::pipeline_parallel
