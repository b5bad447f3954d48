#pragma once
/// @file
/// Gradients in buckets: they travel while the backward pass still makes others.
///
/// GradientBuckets: gradients that lie one after the other in their bucket's memory.
///
/// A bucket that is one array needs no copy into a send buffer and none back: what the backward
/// pass writes is what travels, and what arrives is what the optimizer reads.
/// Source: Li et al. 2020, "PyTorch distributed", arXiv 2006.15704, section 4.2. Deviation: there
/// gradients are copied into buckets and back; PyTorch has views since 1.7, as
/// gradient_as_bucket_view.

#include <cstddef>
#include <memory>
#include <vector>

#include "chapters/03_data_parallel/bucket_assignment.hpp"
#include "chapters/03_data_parallel/bucket_exchange.hpp"
#include "common/nn/parameter.hpp"
#include "common/train/gradients/gradient_exchange.hpp"

namespace ultra::data_parallel {

/// @brief Lets gradients be views of flat memory, one array per bucket.
///
/// A bucket's memory is taken when the first of its gradients is made, and belongs to its gradients
/// alone after release(): Parameter::drop_grad() frees it. The parameters may be gone before this
/// object; when this object is gone first, they take memory of their own again.
/// Memory: that of the gradients, in MemoryCategory::kGradients.
class GradientBuckets {
 public:
  /// @brief From now on new gradients are made in buckets.
  /// @param parameters  numbered in this order; outlive this object's use.
  /// @param buckets   hold each of the parameters once: assign_buckets().
  /// @param multiple  of elements that each array is filled up to with zeros, so that as many ranks
  /// can take equal parts of it.
  GradientBuckets(std::vector<nn::Parameter*> parameters, std::vector<Bucket> buckets,
                  std::size_t multiple = 1);
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// @brief Which parameters are in which bucket.
  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }

  /// @brief What a bucket holds.
  [[nodiscard]] BucketContents contents(std::size_t bucket) const;

  /// @brief [count, filled up] All gradients of a bucket, in its order.
  /// @throws ConfigError, which names the parameter, when one of them is not in the bucket: it was
  /// made before this object, or was not dropped since release().
  [[nodiscard]] const Tensor& flat(std::size_t bucket) const;

  /// @brief Leaves the memory of all buckets to the gradients.
  void release();

 private:
  [[nodiscard]] Tensor allocate(std::size_t bucket, Range place, const nn::Parameter& parameter);
  [[nodiscard]] Tensor new_flat(std::size_t bucket) const;

  std::vector<nn::Parameter*> parameters_;
  std::vector<Bucket> buckets_;
  std::size_t multiple_;
  std::vector<Tensor> flat_;           // by bucket; undefined: not taken
  std::vector<nn::HookHandle> hooks_;  // of the parameters
};

/// @brief When a bucket's gradients start to travel.
enum class Flush {
  kWhenReady,      ///< during the backward pass, which hides them
  kAfterBackward,  ///< when it is over
};

/// @brief Adds up gradients over replicas, bucket by bucket.
///
/// A bucket leaves when its gradients, and those of the buckets before it, are complete. Its
/// gradients lie in one piece of memory, so that nothing is copied before or after an exchange.
/// That memory is taken when the step's first gradient of the bucket is made and belongs to the
/// gradients alone once finish() has returned.
/// Its calls throw ConfigError with the name of a parameter whose gradient was there before the
/// step; InternalError when a step ends and a gradient is not complete.
/// Cost: that of the exchanges; one per bucket and step.
/// Memory: none besides the gradients, except what the exchanges need.
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

/// @brief The same with given buckets.
[[nodiscard]] std::unique_ptr<train::GradientExchange> sum_in_buckets(
    const std::vector<nn::Parameter*>& parameters, std::vector<Bucket> buckets, Flush flush,
    const MakeBucketExchange& exchange, std::size_t multiple = 1);

}  // namespace ultra::data_parallel
