#pragma once
/// @file
/// Random changes of a file that was good: what fuzzing begins with.

#include <cstddef>
#include <string>

#include "tests/support/random.hpp"

namespace ultra::test {

/// @brief Makes one small change: a bit, a byte, a piece that is lost or stands twice, another
/// number, one more of JSON's signs, or many brackets.
void mutate(Random& random, std::string& file);

}  // namespace ultra::test
