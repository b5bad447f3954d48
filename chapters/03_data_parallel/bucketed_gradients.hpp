#pragma once
/// @file
/// Gradients in buckets: they travel while the backward pass still makes others.

#include <cstddef>
#include <memory>
#include <vector>

#include "chapters/03_data_parallel/bucket_assignment.hpp"
#include "chapters/03_data_parallel/bucket_exchange.hpp"
#include "common/nn/parameter.hpp"
#include "common/train/gradients/gradient_exchange.hpp"

namespace ultra::data_parallel {

/// @brief When a bucket's gradients start to travel.
enum class Flush {
  kWhenReady,      ///< during the backward pass, which hides them
  kAfterBackward,  ///< when it is over
};

/// @brief Adds up gradients over replicas, bucket by bucket.
///
/// A bucket leaves when its gradients, and those of the buckets before it, are complete. Its
/// gradients stand in one piece of memory, so that nothing is copied before or after an exchange.
/// That memory is taken when the step's first gradient of the bucket is made and belongs to the
/// gradients alone once finish() has returned.
/// Its calls throw ConfigError with the name of a parameter whose gradient was there before the
/// step; InternalError when a step ends and a gradient is not complete.
/// Cost: that of the exchanges; one per bucket and step.
/// Memory: none beside the gradients, but for what the exchanges need.
/// @param parameters  in forward order; must outlive the result's use; the result may be gone first
/// or last.
/// @param capacity    elements of a bucket; 0 sends each parameter by itself.
/// @param exchange    makes the exchange of each bucket.
/// @param multiple    of elements that each bucket is filled up to with zeros before it is
/// exchanged.
/// @see assign_buckets, BucketQueue, GradientBuckets
[[nodiscard]] std::unique_ptr<train::GradientExchange> sum_in_buckets(
    const std::vector<nn::Parameter*>& parameters, std::size_t capacity, Flush flush,
    const MakeBucketExchange& exchange, std::size_t multiple = 1);

/// @brief The same with buckets of the caller's.
[[nodiscard]] std::unique_ptr<train::GradientExchange> sum_in_buckets(
    const std::vector<nn::Parameter*>& parameters, std::vector<Bucket> buckets, Flush flush,
    const MakeBucketExchange& exchange, std::size_t multiple = 1);

}  // namespace ultra::data_parallel
