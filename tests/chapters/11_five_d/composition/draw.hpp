#pragma once
/// @file
/// Random configurations: most of them legal, some refused in words.

#include <cstddef>

#include "tests/chapters/11_five_d/composition/configuration.hpp"
#include "tests/support/random.hpp"

namespace ultra::five_d::test {

using namespace ultra::test;

/// @brief A tiny training on up to so many ranks: any mesh, any technique of the book.
[[nodiscard]] Configuration draw_configuration(ultra::test::Random& random, std::size_t most_ranks);

}  // namespace ultra::five_d::test
