#pragma once
/// @file
/// CollectivePlay: a collective's step lists played in rounds, with what every element is made of.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chapters/02_collectives/choice/algorithm_table.hpp"

namespace ultra::site {

/// Most ranks that a play has: one bit each.
inline constexpr int kMostPlayers = 32;

/// @brief What an element holds.
struct Cell {
  std::size_t element = 0;     ///< of which element of the input
  std::uint32_t summands = 0;  ///< bit r: rank r's contribution is in it
  /// @brief Equal when both are.
  bool operator==(const Cell&) const = default;
};

/// @brief The elements of one rank; none where there is nothing of the operation yet.
using Cells = std::vector<std::optional<Cell>>;

/// @brief A message of a round.
struct PlayedMessage {
  int from = 0;            ///< rank
  int to = 0;              ///< rank
  std::size_t lane = 0;    ///< of both
  comm::Block sent{};      ///< of the sender
  comm::Block received{};  ///< of the receiver
  bool reduces = false;    ///< whether it is added to what is there
};

/// @brief Messages that travel at the same time, and what every rank holds behind them.
struct PlayedRound {
  std::vector<PlayedMessage> messages;  ///< by sender
  std::vector<Cells> data;              ///< by rank
};

/// @brief A collective from its first message to its last.
struct CollectivePlay {
  std::vector<Cells> at_first;      ///< by rank
  std::vector<PlayedRound> rounds;  ///< each message as early as its two ranks are there
};

/// @brief Plays an algorithm on `ranks` ranks and `elements` elements.
///
/// A step's halves happen in the first round in which both of its ranks have reached it; all
/// messages of a round take what was there before it.
/// @throws ConfigError for an algorithm that does not suit, and for more than kMostPlayers ranks.
[[nodiscard]] CollectivePlay play(OpKind op, const collectives::NamedAlgorithm& algorithm,
                                  int ranks, std::size_t elements,
                                  const collectives::Tuning& tuning);

}  // namespace ultra::site
