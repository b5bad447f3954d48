#include "common/base/errors.hpp"

#include <gtest/gtest.h>

TEST(NotWritten, NamesTheExercise) {
  EXPECT_NE(std::string(ultra::NotWritten("01.1 add").what()).find("not written: 01.1 add"),
            std::string::npos);
}
