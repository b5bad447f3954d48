#pragma once
/// @file
/// ParameterGroup: parameters of a model that lie in one flat array and travel together.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "chapters/03_data_parallel/bucket_assignment.hpp"
#include "chapters/04_zero/flat_layout.hpp"
#include "chapters/04_zero/rows/row_layout.hpp"
#include "common/nn/model.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::zero {

/// @brief Parameters in one flat array: a bucket, or a part of the model.
struct ParameterGroup {
  std::string name;                        ///< "bucket 3", "block 1": for messages and timelines
  std::size_t chunk = 0;                   ///< of the rank's model: whose parameters
  std::size_t part = 0;                    ///< of the chunk; of groups_by_part() only
  std::vector<std::size_t> numbers;        ///< of the parameters among all that are grouped
  std::vector<nn::Parameter*> parameters;  ///< those, in the order of the array
  ShardCut cut = ShardCut::kFlat;          ///< of the array, into shards
  int ranks = 1;                           ///< that own the shards
  FlatLayout layout;                       ///< of the array: flat_layout(), or row_layout()
  bool is_tied = false;  ///< one parameter that is used more than once: its gradient is made in
                         ///< pieces, perhaps with those of other groups in between

  /// @brief A new flat array of `count` elements of the parameters' type.
  [[nodiscard]] Tensor flat(std::size_t count, MemoryCategory category) const;

  /// @brief The elements of parameter `i` of the group in a whole flat array, in their shape.
  /// @param flat  [layout.padded].
  [[nodiscard]] Tensor view(const Tensor& flat, std::size_t i) const;

  /// @brief What a rank's shard holds, in its order; what the pieces leave of it is padding.
  [[nodiscard]] std::vector<Piece> pieces(int rank) const;

  /// @brief Writes the values that a rank's shard starts with, and zeros to the padding.
  /// @param shard  [layout.shard].
  void initialize(const Tensor& shard, int rank) const;
};

/// @brief Buckets of at most `capacity` elements, in the order in which backward passes fill them:
/// those of the last chunk first. A parameter that another stage holds too is a bucket by itself,
/// so that both lay it out alike; so is one that two parts of a chunk use.
/// @param chunks      of the rank's model.
/// @param parameters  those to group, in forward order; others are left out.
/// @see data_parallel::assign_buckets
[[nodiscard]] std::vector<ParameterGroup> groups_by_bucket(
    std::span<nn::Model* const> chunks, const std::vector<nn::Parameter*>& parameters,
    std::size_t capacity, int ranks);

/// @brief One group for each part of the model (embedding, block, head), last part first: in the
/// order in which backward passes make their gradients.
/// @throws ConfigError for a flat group with frozen parameters and trained ones.
[[nodiscard]] std::vector<ParameterGroup> groups_by_part(
    std::span<nn::Model* const> chunks, const std::vector<nn::Parameter*>& parameters, int ranks,
    ShardCut cut = ShardCut::kFlat);

/// @brief Makes the initial weights in one array per flat group, [padded] each, of which the values
/// of the parameters are views from now on. So an all-gather of the ranks' shards writes the weights
/// to where they are read.
/// Memory: that of the weights, and the padding, as MemoryCategory::kParameters.
[[nodiscard]] std::vector<Tensor> whole_weights(const std::vector<ParameterGroup>& groups);

/// @brief The groups as buckets, for chapter 03's parts.
[[nodiscard]] std::vector<data_parallel::Bucket> as_buckets(
    const std::vector<ParameterGroup>& groups);

}  // namespace ultra::zero
