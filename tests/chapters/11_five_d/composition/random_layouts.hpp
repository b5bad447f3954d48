#pragma once
/// @file
/// Many random configurations, each against one rank.

#include <cstddef>
#include <map>
#include <string>

#include "tests/chapters/11_five_d/composition/coverage.hpp"
#include "tests/support/random.hpp"

namespace ultra::five_d::test {

using namespace ultra::test;

/// @brief What became of the configurations that were drawn.
struct Outcomes {
  std::size_t trained = 0;                     ///< and equal one rank
  std::map<std::string, std::size_t> refused;  ///< how often, by the message without its numbers
  Coverage coverage;                           ///< of those that trained
};

/// @brief Trains so many configurations, drawn so that as much as can be trains together; each that
/// differs from one rank fails the test, with its command line and the smallest that differs too.
[[nodiscard]] Outcomes train_random_layouts(ultra::test::Random& random, std::size_t count,
                                            std::size_t most_ranks);

}  // namespace ultra::five_d::test
