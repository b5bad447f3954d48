#pragma once
/// @file
/// Errors and what they say.

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/compare.hpp"

namespace ultra::test {

/// @brief Expects an error of a class whose message holds all the texts.
template <class Thrown>
void expect_message(const std::function<void()>& run, const std::vector<std::string>& texts) {
  const std::string message = message_of<Thrown>(run);
  for (const std::string& text : texts) EXPECT_THAT(message, ::testing::HasSubstr(text));
}

}  // namespace ultra::test
