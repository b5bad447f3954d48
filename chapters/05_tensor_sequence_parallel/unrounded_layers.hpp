#pragma once
/// @file
/// Column- and row-parallel layers of numbers of two bytes whose ranks add up unrounded parts.
///
/// Each rank's product is summed in f32. ColumnParallelProjections and RowParallelLinear round it to two
/// bytes before it travels: half the bytes, and as many roundings as there are ranks. Here it travels in
/// f32, and the sum is rounded once, as on one rank: what `--sums tree` needs for the same bits.

#include <memory>
#include <utility>

#include "chapters/05_tensor_sequence_parallel/column_parallel.hpp"
#include "chapters/05_tensor_sequence_parallel/region.hpp"
#include "chapters/05_tensor_sequence_parallel/row_parallel.hpp"
#include "common/nn/layer.hpp"

namespace ultra::tensor_parallel {

/// @brief Does what ColumnParallelProjections does; saves what it saves.
///
/// Cost: enter_backward() of twice the bytes.
class UnroundedColumnParallel : public ColumnParallelProjections {
 public:
  using ColumnParallelProjections::ColumnParallelProjections;

  [[nodiscard]] Tensor backward(std::span<const Tensor> d_y, nn::Saved& saved) override;
};

/// @brief Does what RowParallelLinear does without a bias; saves what it saves.
///
/// Cost: leave() of twice the bytes.
class UnroundedRowParallel : public RowParallelLinear {
 public:
  /// @param weight  [out_features, in_features of this rank].
  UnroundedRowParallel(std::unique_ptr<nn::Parameter> weight, std::shared_ptr<Region> region)
      : RowParallelLinear(std::move(weight), nullptr, std::move(region)) {}

  [[nodiscard]] Tensor forward(const Tensor& x, nn::Saved& saved) override;
};

}  // namespace ultra::tensor_parallel
