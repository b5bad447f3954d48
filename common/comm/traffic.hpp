#pragma once
/// @file
/// CommStats: what a rank sent, per kind of operation, and how long it waited.

#include <array>
#include <cstddef>

#include "common/comm/engine/operation.hpp"

namespace ultra {

/// @brief Bytes, messages and seconds of one rank's communication since its start.
struct CommStats {
  /// @brief Of one kind of operation.
  struct PerKind {
    std::size_t operations = 0;  ///< ended
    std::size_t sent_bytes = 0;  ///< to other ranks; what a rank copies to itself is not sent
    bool operator==(const PerKind&) const = default;
  };

  std::array<PerKind, kOpKinds> kinds{};  ///< by OpKind
  double busy_seconds = 0;                ///< at least one operation was under way
  double exposed_seconds = 0;             ///< of these: the rank's own thread waited for one

  /// @brief Figures of one kind.
  [[nodiscard]] const PerKind& operator[](OpKind kind) const {
    return kinds[static_cast<std::size_t>(kind)];
  }
  /// @brief Figures of one kind.
  [[nodiscard]] PerKind& operator[](OpKind kind) { return kinds[static_cast<std::size_t>(kind)]; }
  /// @brief Bytes of all kinds.
  [[nodiscard]] std::size_t sent_bytes() const {
    std::size_t sum = 0;
    for (const PerKind& kind : kinds) sum += kind.sent_bytes;
    return sum;
  }
};

}  // namespace ultra
