#pragma once
/// @file
/// BucketExchange: how the gradients of one bucket are added up over the replicas.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::data_parallel {

/// @brief What a bucket holds, for exchanges that look at it more closely than as one array.
struct BucketContents {
  std::size_t number = 0;     ///< of the bucket, in the order of flushing
  std::vector<Shape> shapes;  ///< of its gradients, one after the other
  std::size_t count = 0;      ///< elements of all of them

  /// @brief "bucket 3": what messages and timelines call its operations.
  [[nodiscard]] std::string label() const;
};

/// @brief Adds up one bucket, step after step; may keep what it needs from step to step.
///
/// Collective: all replicas start their buckets in the same order and finish them in that order.
/// Bodies: bucket_exchange.cpp, chapters/04_zero/zero_step.hpp (exercise 04.2),
/// compression/compressed_exchange.cpp.
class BucketExchange {
 public:
  BucketExchange() = default;
  BucketExchange(const BucketExchange&) = delete;
  BucketExchange& operator=(const BucketExchange&) = delete;
  virtual ~BucketExchange() = default;

  /// @brief Begins the exchange; goes on while the backward pass computes.
  /// @param bucket  [count] this replica's gradients; must not be touched until finish() returns,
  /// and is not held longer.
  virtual void start(const Tensor& bucket) = 0;

  /// @brief Returns when the bucket given to start() holds the sum: bitwise the same on all
  /// replicas.
  virtual void finish() = 0;
};

/// Makes the exchange of a bucket, once for a run.
using MakeBucketExchange = std::function<std::unique_ptr<BucketExchange>(
    const BucketContents& contents, const Device& device, DType dtype)>;

/// @brief Adds up by one all-reduce in place, labelled with the bucket.
///
/// Cost: 2 (N-1)/N bytes of the bucket sent per rank.   Memory: none besides the bucket, except
/// what the algorithm of the all-reduce needs.
[[nodiscard]] MakeBucketExchange all_reduce_exchange(const Communicator& dp);

}  // namespace ultra::data_parallel
