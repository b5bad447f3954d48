#pragma once
/// @file
/// GradientBuckets: gradients that stand one after the other in their bucket's memory.
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

namespace ultra::data_parallel {

/// @brief Lets gradients be views of flat memory, one array per bucket.
///
/// A bucket's memory is taken when the first of its gradients is made, and belongs to its gradients
/// alone after release(): Parameter::drop_grad() frees it. The parameters may be gone before this
/// object; when this object is gone first, they take memory of their own again.
/// Memory: that of the gradients, in MemoryCategory::kGradients.
class GradientBuckets {
 public:
  /// @brief From now on new gradients stand in buckets.
  /// @param parameters  numbered as they stand here; outlive this object's use.
  /// @param buckets   hold each of the parameters once: assign_buckets().
  /// @param multiple  of elements that each array is filled up to with zeros, so that as many ranks
  /// can take equal parts of it.
  GradientBuckets(std::vector<nn::Parameter*> parameters, std::vector<Bucket> buckets,
                  std::size_t multiple = 1);
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// @brief Which parameters stand where.
  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }

  /// @brief What a bucket holds.
  [[nodiscard]] BucketContents contents(std::size_t bucket) const;

  /// @brief [count, filled up] All gradients of a bucket, in its order.
  /// @throws ConfigError, which names the parameter, when one of them does not stand here: it was
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
  std::shared_ptr<const bool> alive_;  // what the parameters ask before they ask this object
};

}  // namespace ultra::data_parallel
