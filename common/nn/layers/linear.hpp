#pragma once
/// @file
/// Linear layers on one device.

#include <memory>
#include <vector>

#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::nn {

/// @brief The parameter of a linear map, whole.
[[nodiscard]] ParameterSpec weight_spec(const LinearSpec& spec);

/// @brief Linear maps of one input: y_i = x W_i^T.
///
/// Saves "input". Backward: d_x = sum_i d_y_i W_i, d_W_i += d_y_i^T x.
class DenseProjections : public Projections {
 public:
  /// @brief One weight [out_features, in_features] (or a shard of it) per spec.
  DenseProjections(std::vector<ParameterSpec> weights, const Device& device, ParameterTypes types,
                   std::uint64_t seed, Values values = Values::kAllocated);

  /// @brief One map by a weight that another layer owns.
  /// @param weight  [out_features, in_features]; outlives this.
  explicit DenseProjections(Parameter& weight) : weights_({&weight}) {}

  [[nodiscard]] std::vector<Tensor> forward(const Tensor& x, Saved& saved) override;
  [[nodiscard]] Tensor backward(std::span<const Tensor> d_y, Saved& saved) override;
  [[nodiscard]] std::vector<Parameter*> parameters() override { return weights_; }

 private:
  std::vector<std::unique_ptr<Parameter>> owned_;
  std::vector<Parameter*> weights_;
};

/// @brief One linear map, y = x W^T. Saves "input".
class DenseLinear : public Layer {
 public:
  /// @brief The weight [out_features, in_features], or a shard of it.
  DenseLinear(ParameterSpec weight, const Device& device, ParameterTypes types, std::uint64_t seed,
              Values values = Values::kAllocated);

  [[nodiscard]] Tensor forward(const Tensor& x, Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, Saved& saved) override;
  [[nodiscard]] std::vector<Parameter*> parameters() override;

 private:
  DenseProjections maps_;
};

}  // namespace ultra::nn
