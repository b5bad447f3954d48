#pragma once
/// @file
/// Column- and row-parallel layers of numbers of two bytes whose ranks add up unrounded parts.
///
/// Each rank's product is summed in f32. ColumnParallelProjections and RowParallelLinear round it to two
/// bytes before it travels: half the bytes, and as many roundings as there are ranks. Here it travels in
/// f32, and the sum is rounded once, as on one rank: what `--sums tree` needs for the same bits.

#include <memory>
#include <utility>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/region.hpp"
#include "common/nn/layer.hpp"

namespace ultra::tensor_parallel {

/// @brief Does what ColumnParallelProjections does; saves what it saves.
///
/// Cost: enter_backward() of twice the bytes.
class UnroundedColumnParallel : public nn::Projections {
 public:
  /// @param weights  [out_features of this rank, in_features] each.
  UnroundedColumnParallel(std::vector<std::unique_ptr<nn::Parameter>> weights,
                          std::shared_ptr<Region> region)
      : owned_(std::move(weights)), region_(std::move(region)) {
    for (const auto& weight : owned_) weights_.push_back(weight.get());
  }

  /// @brief One map by a weight that another layer owns.
  /// @param weight  [out_features of this rank, in_features]; outlives this.
  UnroundedColumnParallel(nn::Parameter& weight, std::shared_ptr<Region> region)
      : weights_({&weight}), region_(std::move(region)) {}

  [[nodiscard]] std::vector<Tensor> forward(const Tensor& x, nn::Saved& saved) override;
  [[nodiscard]] Tensor backward(std::span<const Tensor> d_y, nn::Saved& saved) override;
  [[nodiscard]] std::vector<nn::Parameter*> parameters() override { return weights_; }

 private:
  std::vector<std::unique_ptr<nn::Parameter>> owned_;
  std::vector<nn::Parameter*> weights_;
  std::shared_ptr<Region> region_;
};

/// @brief Does what RowParallelLinear does without a bias; saves what it saves.
///
/// Cost: leave() of twice the bytes.
class UnroundedRowParallel : public nn::Layer {
 public:
  /// @param weight  [out_features, in_features of this rank].
  UnroundedRowParallel(std::unique_ptr<nn::Parameter> weight, std::shared_ptr<Region> region)
      : weight_(std::move(weight)), region_(std::move(region)) {}

  [[nodiscard]] Tensor forward(const Tensor& x, nn::Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, nn::Saved& saved) override;
  [[nodiscard]] std::vector<nn::Parameter*> parameters() override { return {weight_.get()}; }

 private:
  std::unique_ptr<nn::Parameter> weight_;
  std::shared_ptr<Region> region_;
};

}  // namespace ultra::tensor_parallel
