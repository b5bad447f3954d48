#pragma once
/// @file
/// Region: how activations get into the part of a block whose matrices are split, and out of it.
///
/// Before a column-parallel matrix activations enter; after a row-parallel one they leave. Each of
/// the two communicates in one of its passes, or in both, and the backward pass of one is the forward
/// pass of the other: conjugate pairs.
///
/// |                  | TensorRegion          | SequenceRegion           |
/// |------------------|-----------------------|--------------------------|
/// | enter, forward   | nothing        *f*    | all-gather       *g*     |
/// | enter, backward  | all-reduce     *f*    | reduce-scatter   *g*     |
/// | leave, forward   | all-reduce     *f-bar*| reduce-scatter   *g-bar* |
/// | leave, backward  | nothing        *f-bar*| all-gather       *g-bar* |
///
/// The letters are Korthikanti's; in the Megatron-LM paper of 2019, *f-bar* is called *g*.
///
/// Source: Shoeybi et al. 2019, "Megatron-LM", arXiv 1909.08053, section 3; Korthikanti et al. 2022,
/// "Reducing activation recomputation in large transformer models", arXiv 2205.05198, section 4.2.2.

#include <functional>
#include <memory>
#include <utility>

#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"
#include "common/comm/communicator.hpp"
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

/// @brief The two borders of a region of split matrices. Outside, a rank has local_seq tokens of each
/// sequence: all of them, or its part of them.
///
/// Collective: the ranks of a region call the same functions in the same order.
/// Bodies: TensorRegion in region.cpp; SequenceRegion in
/// solutions/05_tensor_sequence_parallel/sequence_region.cpp.
class Region {
 public:
  Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  virtual ~Region() = default;

  /// @brief All tokens of the input of a column-parallel matrix.
  /// @param x  [batch, local_seq, hidden]; not written to.
  /// @return [batch, seq, hidden], the same on every rank.
  virtual Pending enter(const Tensor& x) = 0;

  /// @brief The gradient of what entered.
  /// @param d_x  [batch, seq, hidden], the part of the gradient that this rank's columns give; the
  /// ranks' parts add up to it. Overwritten with anything.
  /// @return [batch, local_seq, hidden], the whole gradient.
  virtual Pending enter_backward(const Tensor& d_x) = 0;

  /// @brief The output of a row-parallel matrix.
  /// @param y  [batch, seq, hidden], this rank's part of the sum. Overwritten with anything.
  /// @return [batch, local_seq, hidden], the sum.
  virtual Pending leave(const Tensor& y) = 0;

  /// @brief The gradient of the sum, for every part of it.
  /// @param d_y  [batch, local_seq, hidden]; not written to.
  /// @return [batch, seq, hidden].
  virtual Pending leave_backward(const Tensor& d_y) = 0;
};

/// @brief Tensor parallelism alone: outside the region, all ranks have the same activations.
///
/// Cost: an all-reduce of batch * seq * hidden elements in enter_backward() and in leave().
class TensorRegion : public Region {
 public:
  /// @param tp  the ranks that share each matrix.
  explicit TensorRegion(Communicator tp) : tp_(std::move(tp)) {}

  Pending enter(const Tensor& x) override;
  Pending enter_backward(const Tensor& d_x) override;
  Pending leave(const Tensor& y) override;
  Pending leave_backward(const Tensor& d_y) override;

 private:
  Communicator tp_;
};

/// @brief A region whose functions return when nothing is under way any more: for comparisons.
class WaitingRegion : public Region {
 public:
  /// @param inner  does the work.
  explicit WaitingRegion(std::shared_ptr<Region> inner) : inner_(std::move(inner)) {}

  Pending enter(const Tensor& x) override;
  Pending enter_backward(const Tensor& d_x) override;
  Pending leave(const Tensor& y) override;
  Pending leave_backward(const Tensor& d_y) override;

 private:
  std::shared_ptr<Region> inner_;
};

/// @brief The region of a layout.
/// @param tp  as many ranks as the layout says.
[[nodiscard]] std::shared_ptr<Region> make_region(const Communicator& tp,
                                                  SequenceParallel sequence_parallel);

}  // namespace ultra::tensor_parallel
