#pragma once
/// @file
/// BookAlgorithms: the algorithms written out in this chapter, for a Communicator.
///
/// What `--collectives ours` means in every later chapter.

#include <map>
#include <string>

#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "common/comm/collectives/collective_algorithms.hpp"

namespace ultra::collectives {

/// @brief Which algorithm each operation takes; the same on all ranks.
struct BookOptions {
  /// Names from algorithms(op); operations that are not in here choose by the message's size.
  std::map<OpKind, std::string> names{};
  Tuning tuning{};  ///< dials of the algorithms
};

/// @brief Chooses among the chapter's algorithms, by name or by size, and gives their steps.
///
/// By size: up to tuning.small_bytes the algorithm with the fewest rounds (binomial trees, recursive
/// doubling and halving), above it the one with the least volume (rings; two-level when a node holds
/// several ranks of the group and all nodes are full). The choice depends on rank-uniform values
/// only. That is why all_to_all takes the pairwise exchange whatever the size: a rank cannot see
/// from its own counts whether those of all others are equal, as Bruck's algorithm needs.
class BookAlgorithms : public comm::CollectiveAlgorithms {
 public:
  /// @throws ConfigError for a name that algorithms(op) does not have, and for tuning that cannot
  /// work.
  explicit BookAlgorithms(BookOptions options = {});

  /// @brief The algorithm that a request takes.
  /// @throws ConfigError when it was chosen by name and does not suit; says why.
  [[nodiscard]] const NamedAlgorithm& choose(OpKind op, const CollectiveRequest& request) const;

  [[nodiscard]] comm::Schedule broadcast(const comm::Group& group, std::size_t count,
                                         int root) const override;
  [[nodiscard]] comm::Schedule reduce(const comm::Group& group, std::size_t count,
                                      int root) const override;
  [[nodiscard]] comm::Schedule all_reduce(const comm::Group& group, std::size_t count,
                                          std::size_t element_bytes) const override;
  [[nodiscard]] comm::Schedule gather(const comm::Group& group, const comm::Chunks& chunks,
                                      int root) const override;
  [[nodiscard]] comm::Schedule scatter(const comm::Group& group, const comm::Chunks& chunks,
                                       int root) const override;
  [[nodiscard]] comm::Schedule all_gather(const comm::Group& group,
                                          const comm::Chunks& chunks) const override;
  [[nodiscard]] comm::Schedule reduce_scatter(const comm::Group& group,
                                              const comm::Chunks& chunks) const override;
  [[nodiscard]] comm::Schedule all_to_all(const comm::Group& group, const comm::Chunks& sent,
                                          const comm::Chunks& received) const override;
  [[nodiscard]] comm::Schedule barrier(const comm::Group& group) const override;

 private:
  [[nodiscard]] comm::Schedule schedule(OpKind op, CollectiveRequest request) const;

  BookOptions options_;
};

}  // namespace ultra::collectives
