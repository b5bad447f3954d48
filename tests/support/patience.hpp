#pragma once
/// @file
/// How long tests wait before they call something a hang.

#include <chrono>
#include <cstdlib>

namespace ultra::test {

/// @brief The time to wait for what takes no longer than `limit` on an idle machine.
///
/// ctest sets the factor, ULTRA_TEST_PATIENCE (cmake/UltraTestLimits.cmake); by hand it is 1.
[[nodiscard]] inline std::chrono::seconds patient(std::chrono::seconds limit) {
  const char* const factor = std::getenv("ULTRA_TEST_PATIENCE");
  return factor == nullptr ? limit : limit * std::atoi(factor);
}

}  // namespace ultra::test
