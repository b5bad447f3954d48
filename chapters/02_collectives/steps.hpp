#pragma once
/// @file
/// The kinds of steps that the algorithms of this chapter are made of.

#include "common/comm/collectives/schedule.hpp"

namespace ultra::collectives {

/// @brief Sends a block and receives nothing.
[[nodiscard]] inline comm::Round send_step(int to, const comm::Block& sent) {
  return {.send_to = to, .send = sent, .receive = {}};
}

/// @brief Receives a block and sends nothing.
[[nodiscard]] inline comm::Round receive_step(
    int from, const comm::Block& received, comm::OnReceive on_receive = comm::OnReceive::kStore) {
  return {.send = {}, .receive_from = from, .receive = received, .on_receive = on_receive};
}

/// @brief Sends one block and receives another, at the same time: the two must not overlap.
[[nodiscard]] inline comm::Round exchange_step(
    int to, const comm::Block& sent, int from, const comm::Block& received,
    comm::OnReceive on_receive = comm::OnReceive::kStore) {
  return {.send_to = to,
          .send = sent,
          .receive_from = from,
          .receive = received,
          .on_receive = on_receive};
}

/// @brief Copies (or reduces) a block of this rank's into another: a message to itself.
/// @param self  this rank: of the communicator, not its position in the group.
[[nodiscard]] inline comm::Round local_step(int self, const comm::Block& source,
                                            const comm::Block& target,
                                            comm::OnReceive on_receive = comm::OnReceive::kStore) {
  return exchange_step(self, source, self, target, on_receive);
}

/// @brief The member's own rank of the communicator.
[[nodiscard]] inline int own_rank(const comm::Group& group) { return group.at(group.rank); }

/// @brief Rounds that it takes to reach `size` members when every round doubles the number reached:
/// the smallest k with 2^k >= size.
[[nodiscard]] constexpr int doubling_rounds(int size) {
  int rounds = 0;
  while ((1 << rounds) < size) ++rounds;
  return rounds;
}

}  // namespace ultra::collectives
