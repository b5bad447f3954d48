#include "tests/support/patience.hpp"

#include <cstdlib>

namespace ultra::test {

std::chrono::seconds patient(std::chrono::seconds limit) {
  const char* const factor = std::getenv("ULTRA_TEST_PATIENCE");
  return factor == nullptr ? limit : limit * std::atoi(factor);
}

}  // namespace ultra::test
