#pragma once
/// @file
/// Pending: a tensor that other ranks still add to, or have not sent yet.

#include <functional>
#include <utility>

#include "common/comm/work.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::tensor_parallel {

/// @brief A tensor that may still be under way. The rank may compute until it needs it.
class [[nodiscard]] Pending {
 public:
  /// @brief A tensor that is here.
  explicit Pending(Tensor tensor) : tensor_(std::move(tensor)) {}

  /// @brief A tensor that is here when a work has ended.
  /// @param finish  called then: puts what has arrived in its final order; empty if it is.
  Pending(Tensor tensor, Work work, std::function<Tensor(const Tensor&)> finish = {})
      : tensor_(std::move(tensor)), work_(std::move(work)), finish_(std::move(finish)) {}

  /// @brief The tensor, as soon as it is here. Called once.
  [[nodiscard]] Tensor wait() {
    work_.wait();
    work_ = Work();
    const Tensor arrived = std::exchange(tensor_, Tensor());
    return finish_ ? finish_(arrived) : arrived;
  }

 private:
  Tensor tensor_;
  Work work_;
  std::function<Tensor(const Tensor&)> finish_;
};

}  // namespace ultra::tensor_parallel
