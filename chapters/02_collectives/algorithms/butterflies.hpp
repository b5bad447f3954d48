#pragma once
/// @file
/// Rounds over distances 1, 2, 4, ...: the butterflies' all-reduces, for any number of members, and a
/// barrier without a centre.

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

/// @brief In each round every member exchanges all it has with a partner, twice as far away as the
/// one before, and combines: after k rounds it holds the reduction of 2^k members.
///
/// A message arrives in scratch memory, since the block that it is to be combined with is being
/// sent. Partners compute a + b and b + a, which are the same bits: all members end equal. Any group
/// size: members beyond the largest power of two are folded in and out (Fold).
/// Cost: log2 P rounds, ceil(log2 P) + 1 when P is no power of two; n floor(log2 P) elements sent
/// per rank, n more for those that fold.
/// Memory: n elements of scratch.
/// Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations
/// in MPICH".
[[nodiscard]] comm::Schedule recursive_doubling_all_reduce(const comm::Group& group, Range range);

/// @brief All-reduce by recursive halving and doubling (halving_doubling.hpp) on the largest power of
/// two of members; the others are folded in and out (Fold).
///
/// Cost: 2 log2 P rounds and 2 n (P-1)/P elements sent per rank for powers of two; else, with C the
/// largest power of two below P, 2 log2 C + 2 rounds, and n elements more for those that fold.
/// Source: Rabenseifner 2004, "Optimization of collective reduction operations".
/// Deviation: in the paper the two members that fold each combine one half, which shares the work;
/// here one of them combines everything, which takes one step less.
[[nodiscard]] comm::Lane rabenseifner_all_reduce(const comm::Group& group, Range range);

/// @brief Nobody ends before everybody has begun: empty messages over distances 1, 2, 4, ...
///
/// After k rounds a position has heard, through others, from the 2^k - 1 positions before it.
/// Cost: ceil(log2 P) rounds, no elements.
/// Source: Hensgen, Finkel, Manber 1988, "Two algorithms for barrier synchronization".
[[nodiscard]] comm::Lane dissemination_barrier(const comm::Group& group);

}  // namespace ultra::collectives
