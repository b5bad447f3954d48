#include <gtest/gtest.h>

#include "chapters/01_toy/toy.hpp"

namespace ultra::toy {
namespace {

TEST(Add, SumsSmallNumbers) { EXPECT_EQ(add(1, 2), 3) << "Hint: did you forget one of the two?"; }

TEST(Add, TakesNegativeNumbers) { EXPECT_EQ(add(-1, -2), -3); }

}  // namespace
}  // namespace ultra::toy
