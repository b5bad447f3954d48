#pragma once
/// @file
/// GradientWatch: tells which buckets of gradients are final while the backward pass still runs.

#include <cstddef>
#include <memory>
#include <vector>

#include "chapters/03_data_parallel/bucket_queue.hpp"
#include "chapters/03_data_parallel/gradient_sync.hpp"
#include "common/base/errors.hpp"
#include "common/nn/model.hpp"

namespace ultra::data_parallel {

/// @brief The order of a GradientSync's calls within a step.
class StepState {
 public:
  /// @copydoc GradientSync::begin
  void begin(Pass pass);
  /// @brief The step ends. @throws InternalError without a pass with Pass::kSynchronize before it.
  void finish();
  /// @brief Whether the pass under way is the one with Pass::kSynchronize.
  [[nodiscard]] bool synchronizing() const { return synchronizing_; }

 private:
  bool synchronizing_ = false;
};

/// @brief A parameter that got no gradient, as an error.
[[nodiscard]] ConfigError no_gradient(const nn::Parameter& parameter);

/// @brief Follows a model's gradients through the passes of a step.
///
/// Its hooks stay in the model; they do nothing once this object is gone.
class GradientWatch {
 public:
  /// @param model    outlives this object's use.
  /// @param buckets  hold each of the model's parameters once.
  /// @param flush    called in passes with Pass::kSynchronize, in the order of the buckets, as soon
  /// as the gradients of a bucket and of those before it are final.
  GradientWatch(const nn::Model& model, const std::vector<Bucket>& buckets,
                BucketQueue::Flush flush);
  GradientWatch(const GradientWatch&) = delete;
  GradientWatch& operator=(const GradientWatch&) = delete;

  /// @copydoc GradientSync::begin
  void begin(Pass pass);
  /// @brief The last pass is over: every bucket was flushed.
  /// @throws ConfigError with the name of a parameter that got no gradient (when it got two, the
  /// backward pass threw it); InternalError without a pass with Pass::kSynchronize before it.
  void finish();
  /// @brief Whether the pass under way is the one with Pass::kSynchronize.
  [[nodiscard]] bool synchronizing() const { return state_.synchronizing(); }

 private:
  void gradient_ready(std::size_t parameter);

  std::vector<nn::Parameter*> parameters_;
  BucketQueue queue_;
  StepState state_;
  std::vector<bool> made_;  // by parameter: its gradient, in the pass that synchronizes
  std::shared_ptr<const bool> alive_;
};

}  // namespace ultra::data_parallel
