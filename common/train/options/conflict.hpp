#pragma once
/// @file
/// Conflict: two flags of which one takes the other's meaning away.

#include <span>
#include <string>
#include <vector>

namespace ultra::train {

/// @brief Two flags that do not go together, and why: what refuses them, and a row of a table.
struct Conflict {
  std::string first;    ///< as given: "--dp 2"; where it is not, in general: "--dp"
  std::string second;   ///< likewise
  std::string reason;   ///< and what to do, where that does not go without saying; a sentence
  bool broken = false;  ///< both are given
};

/// @brief Checks that no two flags are given that do not go together.
/// @throws ConfigError of the first conflict that is broken: both flags, and the reason.
void reject_conflicts(std::span<const Conflict> conflicts);

}  // namespace ultra::train
