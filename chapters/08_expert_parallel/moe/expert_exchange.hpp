#pragma once
/// @file
/// ExpertExchange: rows on their way to the ranks that hold their experts, and back.
///
/// Grouped products need what arrives in another order: see RowSegments.

#include <span>
#include <vector>

#include "chapters/08_expert_parallel/dispatch_counts.hpp"
#include "common/comm/communicator.hpp"
#include "common/comm/work.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::expert_parallel {

/// @brief Rows that are on their way.
class [[nodiscard]] InFlightRows {
 public:
  /// @param sent     kept alive until they have arrived.
  /// @param arrived  what is received.
  InFlightRows(Tensor sent, Tensor arrived, Work work)
      : sent_(std::move(sent)), arrived_(std::move(arrived)), work_(std::move(work)) {}

  /// @brief The rows, in the order in which they arrive. Called once.
  [[nodiscard]] Tensor wait() {
    work_.wait();  // or rows that have not arrived would be computed with
    work_ = Work();
    sent_ = Tensor();
    arrived_.set_category(MemoryCategory::kOther);
    return std::exchange(arrived_, Tensor());
  }

 private:
  Tensor sent_;
  Tensor arrived_;
  Work work_;
};

/// @brief Exchanges of rows between the ranks that hold the experts.
///
/// Cost: dispatch and combine each send (rows for other ranks' experts) * features elements, and
/// receive as many as the other ranks have for this one's.
class ExpertExchange {
 public:
  /// @param ep  the ranks that hold the experts.
  explicit ExpertExchange(Communicator ep) : ep_(std::move(ep)) {}

  /// @brief The ranks.
  [[nodiscard]] const Communicator& ranks() const { return ep_; }

  /// @brief Sends rows to their experts. Collective.
  /// @param rows  [rows, features] in expert order.
  /// @return [rows for this rank's experts, features], rank by rank: see in_expert_order().
  InFlightRows dispatch(const Tensor& rows, const DispatchCounts& counts) const;

  /// @brief Sends rows back to where they came from. Collective.
  /// @param rows  [rows for this rank's experts, features], rank by rank.
  /// @return [rows, features] in expert order.
  InFlightRows combine(const Tensor& rows, const DispatchCounts& counts) const;

 private:
  InFlightRows exchange(const Tensor& rows, std::span<const std::size_t> send,
                        std::span<const std::size_t> receive, const char* label) const;

  Communicator ep_;
};

/// @brief Rows as they arrived, expert by expert; without a copy where the two are the same.
[[nodiscard]] Tensor in_expert_order(const Tensor& rows, const DispatchCounts& counts);

/// @brief The other way around.
[[nodiscard]] Tensor in_rank_order(const Tensor& rows, const DispatchCounts& counts);

}  // namespace ultra::expert_parallel
