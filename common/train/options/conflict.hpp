#pragma once
/// @file
/// Conflict: two flags of which one takes the other's meaning away.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ultra::train {

/// @brief Two flags that do not go together, and why: what refuses them, and a row of a table.
struct Conflict {
  std::string first;    ///< as given: "--dp 2"; where it is not, in general: "--dp"
  std::string second;   ///< likewise
  std::string reason;   ///< and what to do, where that does not go without saying; a sentence
  bool broken = false;  ///< both are given
};

/// The flag that names another machine, on which a step is recorded.
inline constexpr std::string_view kOnFlag = "--on";

/// @brief A row for a flag that a recorded step cannot have.
/// @param given  the flag is; the row is asked for only with kOnFlag.
[[nodiscard]] Conflict not_recorded(std::string flag, std::string reason, bool given);

/// @brief Checks that no two flags are given that do not go together.
/// @throws ConfigError of the first conflict that is broken: both flags, and the reason.
void reject_conflicts(std::span<const Conflict> conflicts);

}  // namespace ultra::train
