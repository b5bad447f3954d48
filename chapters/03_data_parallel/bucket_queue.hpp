#pragma once
/// @file
/// BucketQueue: which bucket may go, as gradients become ready.
///
/// Exercise 03.3 (`./workbook check 03.3`). Body: solutions/03_data_parallel/bucket_queue.cpp.
/// Source: Li et al. 2020, "PyTorch distributed", arXiv 2006.15704, section 3.2.3 and algorithm 1.

#include <cstddef>
#include <functional>
#include <vector>

#include "chapters/03_data_parallel/bucket_assignment.hpp"

namespace ultra::data_parallel {

/// @brief Flushes each bucket once, when all its gradients are ready and all buckets before it have
/// been flushed.
///
/// In order, because collectives must be called in the same order on all ranks, and gradients may
/// become ready in different ones.
class BucketQueue {
 public:
  /// Starts the communication of a bucket.
  using Flush = std::function<void(std::size_t bucket)>;

  /// @brief Expects all gradients of all buckets, once.
  /// @param buckets  hold each of the parameters 0, 1, ... exactly once.
  /// @param flush    called from ready(), with buckets 0, 1, ... in this order.
  /// @throws InternalError when a parameter is in two buckets or in none.
  BucketQueue(const std::vector<Bucket>& buckets, Flush flush);

  /// @brief A backward pass begins whose gradients are to be flushed: nothing is ready.
  void restart();

  /// @brief The gradient of a parameter is ready; flushes what may go.
  /// @throws InternalError with its number when it was ready before, because a gradient must not
  /// change once its bucket may be on its way; and when there is no such parameter.
  void ready(std::size_t parameter);

  /// @brief The backward pass has ended.
  /// @throws InternalError with the number of a parameter that is not ready: one that the forward pass
  /// did not use, for example. Its bucket was never flushed.
  void expect_all_flushed() const;

 private:
  Flush flush_;
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<std::size_t> sizes_;      // parameters of each bucket
  std::vector<std::size_t> waiting_;    // by bucket: parameters that are not ready
  std::vector<bool> ready_;             // by parameter
  std::size_t next_ = 0;                // the first bucket that was not flushed
};

}  // namespace ultra::data_parallel
