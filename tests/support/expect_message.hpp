#pragma once
/// @file
/// Errors and what they say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace ultra::test {

/// @brief Expects an error of a class whose message holds all the texts.
template <class Thrown>
void expect_message(const std::function<void()>& run, const std::vector<std::string>& texts) {
  try {
    run();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Thrown& error) {
    for (const std::string& text : texts) EXPECT_THAT(error.what(), ::testing::HasSubstr(text));
  }
}

}  // namespace ultra::test
