#pragma once
/// @file
/// Biases behind linear maps that somebody else has made.

#include <memory>
#include <vector>

#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::nn {

/// @brief The maps with a bias each, y_i = x W_i^T + b_i; the biases start at 0. Saves nothing more.
///
/// A bias is where the rows of its weight are: it takes their shard, the groups that hold them and
/// what each rank has of their gradient. So whoever splits the weights need not know of it.
/// @param maps   as LayerFactory::column_linear() makes them of the specs.
/// @param specs  of the weights, "..weight"; the biases are called "..bias".
[[nodiscard]] std::unique_ptr<Projections> with_biases(const BuildContext& context,
                                                       std::unique_ptr<Projections> maps,
                                                       const std::vector<LinearSpec>& specs);

}  // namespace ultra::nn
