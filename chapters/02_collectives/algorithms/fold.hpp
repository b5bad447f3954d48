#pragma once
/// @file
/// Folding: makes an algorithm for 2^k members one for any number of members.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief The largest power of two of a group's members, and the steps that bring the others' data
/// there and the result back.
///
/// The first core_size positions are the core. Position core_size + i gives its data to position i,
/// which combines them with its own, and gets the result from it at the end.
/// Cost: 2 rounds, when the group's size is no power of two; n elements sent more by the members
/// outside the core, and by those that they fold into.
/// Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations
/// in MPICH".
class Fold {
 public:
  /// @brief Folds the elements of `range` of this group.
  Fold(const comm::Group& group, Range range);

  /// @brief Whether this rank takes part in what happens between in() and out().
  [[nodiscard]] bool in_core() const { return group_.rank < core_size_; }
  /// @brief The members of the core. @pre in_core().
  [[nodiscard]] comm::Group core() const;
  /// @brief The steps before.
  [[nodiscard]] comm::Lane in() const;
  /// @brief The steps after.
  [[nodiscard]] comm::Lane out() const;

 private:
  [[nodiscard]] bool has_partner() const { return group_.rank + core_size_ < group_.size(); }

  const comm::Group& group_;
  Range range_;
  int core_size_;
};

}  // namespace ultra::collectives
