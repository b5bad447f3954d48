#pragma once
/// @file
/// RankGroups: the groups of ranks that a run knows by name.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/comm/communicator.hpp"

namespace ultra::train {

/// @brief Groups of ranks, in an order that is the same on all ranks.
///
/// A parameter names the groups that hold it (nn::Replication); here are the ranks. Two groups of
/// the same size, even of the same ranks, are two groups.
class RankGroups {
 public:
  /// @brief Adds a group in which this rank is.
  /// @throws InternalError when the name is taken.
  void add(std::string name, Communicator ranks);

  /// @brief The group of that name.
  /// @throws InternalError that lists the names that there are.
  [[nodiscard]] const Communicator& at(std::string_view name) const;

  /// @brief All groups, as they were added.
  [[nodiscard]] const std::vector<std::pair<std::string, Communicator>>& all() const {
    return groups_;
  }

 private:
  std::vector<std::pair<std::string, Communicator>> groups_;
};

}  // namespace ultra::train
