#pragma once
/// @file
/// Files for --mask.

#include <string>

#include "tests/support/random.hpp"

namespace ultra::test {

/// @brief A byte for each token: 1 with this chance, else 0; there is a 1 at least.
[[nodiscard]] std::string random_mask(Random& random, std::size_t tokens, double density);

/// @brief A file with one of eight such masks for kText, which is there until the tests end.
[[nodiscard]] std::string mask_file(Random& random, double density);

}  // namespace ultra::test
