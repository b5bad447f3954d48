#pragma once
/// @file
/// Values that no flag may trip over, and what must become of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace ultra::test {

/// @brief Numbers at the ends of integers and beyond those of doubles, and texts that are none.
inline std::vector<std::string> odd_values() {
  return {"0",
          "1",
          "2147483647",
          "2147483648",
          "4294967296",
          "4294967297",
          "9223372036854775808",
          "9223372036854775809",
          "18446744073709551615",
          "18446744073709551616",
          "1e-300",
          "1e300",
          "",
          "0x10",
          "nan",
          "inf",
          "-1",
          " 1",
          "1 ",
          ",",
          ":",
          "\x1b[31mred",
          std::string(3000, 'x'),
          std::string(1 << 20, '7')};
}

/// @brief A message that refuses a flag's value: it names the flag, is short, and prints.
inline void expect_good_refusal(const std::string& message, const std::string& flag) {
  EXPECT_NE(message.find(flag), std::string::npos) << message;
  EXPECT_LT(message.size(), 500U) << message.substr(0, 1000);
  EXPECT_TRUE(std::ranges::none_of(message, [](unsigned char c) { return std::iscntrl(c) != 0; }))
      << message.substr(0, 1000);
}

}  // namespace ultra::test
