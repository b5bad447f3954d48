#pragma once
/// @file
/// Buckets for compressed gradients of which several ranks compute equal copies.

#include <vector>

#include "chapters/03_data_parallel/bucket_assignment.hpp"
#include "common/nn/parameter.hpp"

namespace ultra::data_parallel {

/// @brief Puts parameters into buckets as assign_buckets(), but only such together whose gradients are
/// equal on the same other ranks, as those of the norms are in tensor parallelism.
///
/// What a compression makes of a number depends on all numbers of its bucket: their mean, their
/// largest. In a bucket with shards, which differ from rank to rank, equal gradients would not stay
/// equal, and the copies of a weight would drift apart.
/// @param parameters  in forward order.
/// @param capacity    elements of a bucket; with 0 each parameter has one of its own.
/// @return buckets in the order in which the backward pass fills them.
[[nodiscard]] std::vector<Bucket> buckets_of_equal_copies(
    const std::vector<nn::Parameter*>& parameters, std::size_t capacity);

}  // namespace ultra::data_parallel
