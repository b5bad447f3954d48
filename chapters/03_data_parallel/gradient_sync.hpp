#pragma once
/// @file
/// GradientSync: how and when the gradients of replicas are averaged.

#include <cstddef>
#include <functional>
#include <memory>

#include "chapters/03_data_parallel/bucket_exchange.hpp"
#include "common/comm/communicator.hpp"
#include "common/nn/model.hpp"

namespace ultra::data_parallel {

/// @brief Which micro-batch of a step a backward pass belongs to.
enum class Pass {
  kAccumulate,   ///< more follow: gradients add up, nothing is sent (PyTorch's no_sync)
  kSynchronize,  ///< the last one: gradients are final when it has made them
};

/// @brief Averages a model's gradients over its replicas.
///
/// In each step: begin() before each micro-batch, the last one with Pass::kSynchronize, then finish().
/// Collective: what follows begin(Pass::kSynchronize), finish() included, on all replicas in each
/// step; of the micro-batches before it, each replica may have its own number.
class GradientSync {
 public:
  GradientSync() = default;
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;
  virtual ~GradientSync() = default;

  /// @brief A micro-batch's passes begin.
  /// @throws InternalError when finish() has not followed a pass with Pass::kSynchronize.
  virtual void begin(Pass pass) = 0;

  /// @brief Returns when each parameter's gradient is the average over the replicas: bitwise the same
  /// on all of them.
  /// @throws ConfigError with the name of a parameter that got no gradient; InternalError without a
  /// pass with Pass::kSynchronize before it.
  virtual void finish() = 0;
};

/// Makes the synchronisation of a model, before its first gradient. A model has one at a time; when
/// that is gone, its gradients are the model's own again.
using MakeGradientSync = std::function<std::unique_ptr<GradientSync>(nn::Model& model)>;

/// @brief All gradients after the backward pass, parameter by parameter: average_gradients().
///
/// Cost: 2 (N-1)/N gradient bytes sent per rank, in one all-reduce per parameter, all of it exposed.
/// @param model  must outlive the result's use; the result may be gone first or last.
[[nodiscard]] std::unique_ptr<GradientSync> sync_after_backward(nn::Model& model,
                                                                const Communicator& dp);

/// @brief When a bucket's gradients start to travel.
enum class Flush {
  kWhenReady,      ///< during the backward pass, which hides them
  kAfterBackward,  ///< when it is over
};

/// @brief Gradients in buckets.
///
/// The gradients of a bucket stand in one piece of memory, so that nothing is copied before or after
/// an exchange. That memory is taken when the step's first gradient of the bucket is made and
/// belongs to the gradients alone once finish() has returned.
/// A ConfigError names a parameter that got no gradient in the pass with Pass::kSynchronize (thrown by
/// finish()), or two of them (by the backward pass), or whose gradient was there before the step (by
/// whichever of the two sends its bucket).
/// Cost: that of the exchanges; one per bucket and step.
/// Memory: none beside the gradients, but for what the exchanges need.
/// @param model     must outlive the result's use; the result may be gone first or last. A backward
/// pass must use each of its parameters once.
/// @param capacity  elements of a bucket; 0 sends each parameter by itself.
/// @param exchange  makes the exchange of each bucket.
/// @param multiple  of elements that each bucket is filled up to with zeros before it is exchanged.
/// @see assign_buckets, BucketQueue, GradientBuckets
[[nodiscard]] std::unique_ptr<GradientSync> sync_in_buckets(nn::Model& model, std::size_t capacity,
                                                            Flush flush,
                                                            const MakeBucketExchange& exchange,
                                                            std::size_t multiple = 1);

}  // namespace ultra::data_parallel
