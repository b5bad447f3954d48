#pragma once
/// @file
/// Barriers that count: mbarrier, whose phases complete when all arrivals and all announced bytes have
/// come, and barriers that gather a number of threads (bar.sync, barrier.cluster).
/// Source: PTX ISA, "mbarrier" and "bar".

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/simt/emulator/async/clock.hpp"
#include "kernels/simt/emulator/hooks.hpp"

namespace ultra::simt::emulator {

/// @brief The state of an mbarrier.
struct PhaseBarrier {
  /// @brief Arrivals that each phase takes.
  std::uint32_t arrivals = 0;
  /// @brief Those that the current phase still lacks.
  std::uint32_t missing = 0;
  /// @brief Bytes announced for the current phase.
  std::int64_t announced = 0;
  /// @brief Bytes that have come in the current phase.
  std::int64_t come = 0;
  /// @brief Phases completed.
  std::uint32_t phase = 0;
  /// @brief Whether TMA and other blocks have been shown it.
  bool is_published = false;
  /// @brief When it was made.
  Event made{};
  /// @brief The thread that made it.
  std::size_t maker = 0;
  /// @brief Stands for the boxes that come to it: number p + 1 for those of phase p.
  Slot slot = 0;
  /// @brief First byte in its block's shared memory.
  std::size_t offset = 0;
  /// @brief What those who arrive in the current phase know.
  Clock arriving{};
  /// @brief What those who wait learn.
  Clock completed{};

  /// @brief Whether the phase of this parity has completed: a waiter goes on. The phase before the
  /// first one counts as completed.
  [[nodiscard]] bool has_completed(std::uint32_t parity) const { return (phase & 1U) != parity; }
  /// @brief Whether nothing is missing in the current phase.
  [[nodiscard]] bool is_complete() const { return missing == 0 && announced == come; }
  /// @brief Begins the next phase.
  void complete();
  /// @brief "3 of 8 arrivals and 0 of 16384 bytes".
  [[nodiscard]] std::string to_text() const;
};

/// @brief A barrier that opens when a number of threads have come.
struct GatheringBarrier {
  /// @brief How many; 0 before anybody has said so.
  std::size_t expected = 0;
  /// @brief How many have come.
  std::size_t come = 0;
  /// @brief How often it has opened.
  std::uint32_t openings = 0;
  /// @brief The first line of this round, for messages.
  SourceLine place{};
  /// @brief What those who come know.
  Clock arriving{};
  /// @brief What those who wait learn.
  Clock opened{};

  /// @brief Opens and begins anew if all have come.
  /// @return whether it has opened.
  bool open_if_complete();
};

}  // namespace ultra::simt::emulator
