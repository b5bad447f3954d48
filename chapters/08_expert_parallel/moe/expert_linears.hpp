#pragma once
/// @file
/// ExpertLinears: linear maps of which every expert has its own, for rows in the order of the
/// experts.
///
/// Grouped matrix products: rows in groups, each with a matrix of its own, in one call.
///
/// Source: Gale et al. 2023, "MegaBlocks", arXiv 2211.15841, section 3 (why batched products of one
/// size waste work); CUTLASS calls it a grouped GEMM.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/nn/layer.hpp"
#include "common/nn/parameter.hpp"
#include "common/ops/matmul.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::expert_parallel {

/// @brief Rows of group g of `out` = those of `a` times op(matrix g), or added to what was there.
/// @param out       [rows, n].
/// @param a         [rows, k]; the groups stand one after the other.
/// @param rows      [groups] rows of each; a group may have none.
/// @param matrices  [groups] of [k, n], or [n, k] when transposed.
/// @throws ShapeError when the rows of the groups do not add up to those of `a`, and what
/// ops::matmul_into throws.
void grouped_matmul_into(const Tensor& out, const Tensor& a, std::span<const std::size_t> rows,
                         std::span<const Tensor> matrices, ops::Transpose transpose,
                         ops::Write write = ops::Write::kOverwrite);

/// @brief A new tensor of the products, [rows, n].
[[nodiscard]] Tensor grouped_matmul(const Tensor& a, std::span<const std::size_t> rows,
                                    std::span<const Tensor> matrices, ops::Transpose transpose);

/// @brief Linear maps of one input; each row is multiplied with the matrices of its expert.
class ExpertLinears : public nn::Module {
 public:
  /// @brief y_m = x W_{m,e}^T for each map m, and each row's expert e. Saves "input".
  /// @param x     [rows, in_features], expert by expert.
  /// @param rows  [held experts] rows of each.
  /// @return one [rows, out_features] for each map.
  [[nodiscard]] virtual std::vector<Tensor> forward(const Tensor& x,
                                                    std::span<const std::size_t> rows,
                                                    nn::Saved& saved) = 0;

  /// @brief The gradient of the input, and of the weights; the last map's and expert's first.
  /// @param d_y  of each map's output.
  /// @return [rows, in_features].
  [[nodiscard]] virtual Tensor backward(std::span<const Tensor> d_y,
                                        std::span<const std::size_t> rows, nn::Saved& saved) = 0;
};

/// @brief Makes other linear maps around some.
using WrapExpertLinears =
    std::function<std::unique_ptr<ExpertLinears>(std::unique_ptr<ExpertLinears>)>;

/// @brief The maps as grouped products in the type of the rows.
///
/// Every backward pass adds to every expert's gradient, zeros for one without rows: gradients of a
/// group travel in one order on all its ranks, and one that came late could stop them all.
class GroupedExpertLinears : public ExpertLinears {
 public:
  /// The weights of one map, by expert: [out_features, in_features].
  using Weights = std::vector<std::unique_ptr<nn::Parameter>>;

  /// @param maps  at least one.
  explicit GroupedExpertLinears(std::vector<Weights> maps) : maps_(std::move(maps)) {}

  [[nodiscard]] std::vector<Tensor> forward(const Tensor& x, std::span<const std::size_t> rows,
                                            nn::Saved& saved) override;
  [[nodiscard]] Tensor backward(std::span<const Tensor> d_y, std::span<const std::size_t> rows,
                                nn::Saved& saved) override;
  /// @brief All experts' weights of the first map, then those of the next.
  [[nodiscard]] std::vector<nn::Parameter*> parameters() override;

 private:
  std::vector<Weights> maps_;
};

}  // namespace ultra::expert_parallel
