#pragma once
/// @file
/// WaitingLine: receives take messages in the order in which they were begun.

#include <mpi.h>

#include <algorithm>
#include <vector>

namespace ultra::comm::mpi {

/// @brief Where a message goes or comes from.
struct Address {
  MPI_Comm comm;  ///< the group
  int peer;       ///< rank in the group
  int tag;        ///< MPI's
  /// @brief Equal when all members are.
  bool operator==(const Address&) const = default;
};

/// @brief The receives that wait, in the order in which they were begun.
class WaitingLine {
 public:
  /// @brief Joins the line; `receive` is only a name here.
  void enter(const void* receive, const Address& from) { line_.push_back({receive, from}); }
  /// @brief Leaves the line; does nothing for one who has left.
  void leave(const void* receive) {
    std::erase_if(line_, [&](const Place& place) { return place.receive == receive; });
  }
  /// @brief Whether the next message from there is for `receive`.
  [[nodiscard]] bool is_first(const void* receive, const Address& from) const {
    const auto first = std::ranges::find(line_, from, &Place::from);
    return first != line_.end() && first->receive == receive;
  }

 private:
  struct Place {
    const void* receive;
    Address from;
  };
  std::vector<Place> line_;
};

}  // namespace ultra::comm::mpi
