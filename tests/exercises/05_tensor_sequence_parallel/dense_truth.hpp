#pragma once
/// @file
/// What linear maps with whole weights give on one rank in f64, with the size of the terms that
/// each number is a sum of: the truth that ranks with parts of the weights must match.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/nn/layers/linear.hpp"
#include "common/nn/parameter.hpp"
#include "common/ops/elementwise.hpp"
#include "common/tensor/tensor.hpp"
#include "tests/support/compare.hpp"

namespace ultra::tensor_parallel::test {

/// @brief A contiguous copy in another device's memory.
inline Tensor copy_to(const Device& device, const Tensor& tensor) {
  const Tensor copy = Tensor::empty(device, tensor.shape(), tensor.dtype());
  copy.copy_from(tensor);
  return copy;
}

/// @brief A contiguous copy, every element times a factor.
inline Tensor scaled(const Tensor& tensor, double factor) {
  const Tensor result = tensor.clone();
  ops::scale_into(result, factor);
  return result;
}

/// @brief A parameter with these values.
inline std::unique_ptr<nn::Parameter> make_parameter(const Device& device, const std::string& name,
                                                     const Tensor& value) {
  auto parameter = std::make_unique<nn::Parameter>(
      nn::ParameterSpec{
          .name = name, .global_shape = value.shape(), .shard = {}, .initializer = {}},
      device, value.dtype(), 0, nn::Values::kDeferred);
  parameter->set_value(copy_to(device, value));
  return parameter;
}

/// @brief Numbers that are sums, and the sums of their terms' magnitudes; f64.
struct Known {
  Tensor value;
  Tensor magnitude;

  [[nodiscard]] std::size_t size(int dim) const { return value.size(dim); }
  [[nodiscard]] Known slice(int dim, Range range) const {
    return {.value = value.slice(dim, range), .magnitude = magnitude.slice(dim, range)};
  }
};

/// @brief Same shape, and no further from the truth than that many roundings of the found dtype.
inline ::testing::AssertionResult near(const Tensor& found, const Known& known, double roundings) {
  if (!found.defined()) return ::testing::AssertionFailure() << "there is none";
  if (found.shape() != known.value.shape()) {
    return ::testing::AssertionFailure() << fmt::format(
               "found the shape {}, expected {}", found.shape().str(), known.value.shape().str());
  }
  std::vector<double> tolerances = known.magnitude.to_vector();
  for (double& tolerance : tolerances) {
    tolerance = ultra::test::rounding_bound(found.dtype(), roundings, tolerance);
  }
  return ultra::test::all_near(found, known.value.to_vector(), tolerances);
}

/// @brief Linear maps of one input, forward and backward.
struct LinearPass {
  std::vector<Known> y;  ///< by map
  Known d_x;
  std::vector<Known> d_weights;  ///< by map
};

/// @brief The dense layer's pass, with everything converted to f64.
inline LinearPass dense_pass(const Tensor& x, const std::vector<Tensor>& weights,
                             const std::vector<Tensor>& d_y) {
  LinearPass pass{.y = std::vector<Known>(weights.size()),
                  .d_x = {},
                  .d_weights = std::vector<Known>(weights.size())};
  for (Tensor Known::*const number : {&Known::value, &Known::magnitude}) {
    const auto in_f64 = [&](const Tensor& tensor) {
      const Tensor copy = tensor.to(DType::kF64).clone();
      for (double& v : copy.span<double>()) v = number == &Known::magnitude ? std::abs(v) : v;
      return copy;
    };
    std::vector<nn::ParameterSpec> specs;
    std::vector<Tensor> d_outputs;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      specs.push_back({.name = fmt::format("map {}", i),
                       .global_shape = weights[i].shape(),
                       .shard = {},
                       .initializer = {}});
      d_outputs.push_back(in_f64(d_y[i]));
    }
    nn::DenseProjections maps(specs, x.device(), DType::kF64, 0, nn::Values::kDeferred);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      maps.parameters()[i]->set_value(in_f64(weights[i]));
    }
    nn::Saved saved;
    const std::vector<Tensor> y = maps.forward(in_f64(x), saved);
    pass.d_x.*number = maps.backward(d_outputs, saved);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      pass.y[i].*number = y[i];
      pass.d_weights[i].*number = maps.parameters()[i]->grad();
    }
  }
  return pass;
}

}  // namespace ultra::tensor_parallel::test
