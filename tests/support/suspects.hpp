#pragma once
/// @file
/// Recognising a wrong number: what typical mistakes would give, and what to say about them.

#include <string>
#include <vector>

namespace ultra::test {

/// @brief A wrong value, and what to say about it.
struct Suspect {
  double value = 0.0;     ///< what the mistake gives
  const char* hint = "";  ///< what to look at
};

/// @brief Whether two numbers are the same but for `relative`, a share of the larger one.
[[nodiscard]] bool close(double a, double b, double relative);

/// @brief "Hint: ..." of the first suspect whose value was found; empty when there is none.
///
/// A mistake whose value is the right one here is not suspected.
/// @param relative  how far apart equal numbers may be: see close().
[[nodiscard]] std::string diagnosis(double found, double expected,
                                    const std::vector<Suspect>& suspects, double relative);

}  // namespace ultra::test
