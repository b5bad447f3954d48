#include <gtest/gtest.h>

#include "chapters/01_toy/toy.hpp"

TEST(Twice, Doubles) { EXPECT_EQ(ultra::toy::twice(4), 8); }
