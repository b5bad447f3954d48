#pragma once
/// @file
/// Recognising a wrong number: what typical mistakes would give, and what to say about them.

#include "tests/support/toolbox.hpp"

namespace ultra::test {

/// @brief A wrong value, and what to say about it.
struct Suspect {
  double value = 0.0;     ///< what the mistake gives
  const char* hint = "";  ///< what to look at
};

/// @brief Whether two numbers are the same but for `relative`, a share of the larger one.
[[nodiscard]] inline bool close(double a, double b, double relative) {
  return std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b));
}

/// @brief "Hint: ..." of the first suspect whose value was found; empty when there is none.
///
/// A mistake whose value is the right one here is not suspected.
/// @param relative  how far apart equal numbers may be: see close().
[[nodiscard]] inline std::string diagnosis(double found, double expected,
                                           const std::vector<Suspect>& suspects, double relative) {
  for (const auto& [value, hint] : suspects) {
    if (!close(value, expected, relative) && close(found, value, relative)) {
      return fmt::format("Hint: {}", hint);
    }
  }
  return "";
}

/// @brief Expects close(found, expected, relative); a failure says what was found, and diagnosis().
inline void expect_close(const std::string& what, double found, double expected,
                         const std::vector<Suspect>& suspects, double relative) {
  EXPECT_TRUE(close(found, expected, relative))
      << what << ": " << fmt::format("{}", found) << ", expected " << fmt::format("{}", expected)
      << ". " << diagnosis(found, expected, suspects, relative);
}

}  // namespace ultra::test
