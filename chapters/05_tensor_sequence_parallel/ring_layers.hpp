#pragma once
/// @file
/// Column- and row-parallel layers whose communication hides behind their products, in rings.
///
/// | layer, pass      | ring            | hidden behind                        |
/// |------------------|-----------------|--------------------------------------|
/// | column, forward  | all-gather      | the outputs of each chunk            |
/// | column, backward | reduce-scatter  | the input gradient of each chunk     |
/// | row, forward     | reduce-scatter  | the output of each chunk             |
/// | row, backward    | all-gather      | the input gradient of each chunk     |
///
/// The column's input is gathered once more in its backward pass, by an all-gather that the ring's
/// products hide. Both layers need sequence parallelism: rank r has the tokens of chunk r.

#include <memory>
#include <utility>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/column_parallel.hpp"
#include "chapters/05_tensor_sequence_parallel/region.hpp"
#include "common/comm/communicator.hpp"
#include "common/nn/layer.hpp"

namespace ultra::tensor_parallel {

/// @brief Does what ColumnParallelProjections does in a SequenceRegion; saves what it saves.
class RingColumnParallel : public ColumnParallelProjections {
 public:
  /// @param weights  [out_features of this rank, in_features] each.
  /// @param tp       the ranks that share each matrix, and each sequence.
  RingColumnParallel(std::vector<std::unique_ptr<nn::Parameter>> weights, const Communicator& tp)
      : ColumnParallelProjections(std::move(weights), make_region(tp, SequenceParallel::kOn)),
        tp_(tp) {}

  /// @brief One map by a weight that another layer owns.
  /// @param weight  [out_features of this rank, in_features]; outlives this.
  RingColumnParallel(nn::Parameter& weight, const Communicator& tp)
      : ColumnParallelProjections(weight, make_region(tp, SequenceParallel::kOn)), tp_(tp) {}

  [[nodiscard]] std::vector<Tensor> forward(const Tensor& x, nn::Saved& saved) override;
  [[nodiscard]] Tensor backward(std::span<const Tensor> d_y, nn::Saved& saved) override;

 private:
  Communicator tp_;
};

/// @brief Does what RowParallelLinear does in a SequenceRegion; saves what it saves.
class RingRowParallel : public nn::Layer {
 public:
  /// @param weight  [out_features, in_features of this rank].
  /// @param tp      the ranks that share each matrix, and each sequence.
  RingRowParallel(std::unique_ptr<nn::Parameter> weight, Communicator tp)
      : weight_(std::move(weight)), tp_(std::move(tp)) {}

  [[nodiscard]] Tensor forward(const Tensor& x, nn::Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, nn::Saved& saved) override;
  [[nodiscard]] std::vector<nn::Parameter*> parameters() override { return {weight_.get()}; }

 private:
  std::unique_ptr<nn::Parameter> weight_;
  Communicator tp_;
};

}  // namespace ultra::tensor_parallel
