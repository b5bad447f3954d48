#include <gtest/gtest.h>

#include "chapters/01_toy/toy.hpp"

TEST(Sum, HasBoth) { EXPECT_EQ(ultra::toy::add(1, 2), 3); }
