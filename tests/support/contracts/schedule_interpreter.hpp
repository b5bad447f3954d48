#pragma once
/// @file
/// An interpreter of schedules: all ranks in lockstep, on plain vectors, with the strictest reading
/// of what a schedule may rely on. It shares no code with the executor of common/comm.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/comm/collectives/schedule.hpp"

namespace ultra::test {

/// @brief One rank's buffers before the first step. Scratch memory starts as NaN.
template <class T>
struct RankBuffers {
  std::vector<T> data;
  std::vector<T> input{};
};

/// @brief Why schedules cannot be carried out.
enum class Fault {
  kNone,
  kBadStep,   ///< a step that nobody could take: no such rank, outside of the buffer, ...
  kRace,      ///< memory is written while it is read or written by somebody else
  kSize,      ///< a message meets a block of another size
  kDeadlock,  ///< ranks wait for each other, or for somebody who has ended
};

/// @brief What became of the schedules.
template <class T>
struct Interpretation {
  Fault fault = Fault::kNone;          ///< what went wrong
  std::string message{};               ///< one line about it; empty when nothing did
  std::vector<std::vector<T>> data{};  ///< by rank: the data buffer at the end
  std::vector<std::size_t> sent{};     ///< by rank: elements sent to other ranks
  int rounds = 0;                      ///< until all had ended: messages in a round go side by side
};

/// @brief Takes the steps of all ranks, a reduction being a sum.
///
/// In every round each lane of each rank is in one step. A message goes over when its sender and its
/// receiver are in the steps that name each other; a step ends with the round in which both its
/// halves are done. Copies to oneself take no round.
/// Requires: T is float or double.
/// @param schedules  by rank; a rank outside of the group has an empty one.
/// @param buffers    by rank.
template <class T>
[[nodiscard]] Interpretation<T> interpret(std::span<const comm::Schedule> schedules,
                                          std::vector<RankBuffers<T>> buffers);

}  // namespace ultra::test
