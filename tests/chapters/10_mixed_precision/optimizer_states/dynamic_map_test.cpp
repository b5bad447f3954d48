#include "chapters/10_mixed_precision/optimizer_states/dynamic_map.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

class DynamicMaps : public ultra::test::RandomTest {};

TEST_F(DynamicMaps, HaveTheNumbersOfThePublishedMaps) {
  // Of the paper's library: the first and last of each.
  const DynamicMap& both = signed_map();
  EXPECT_FLOAT_EQ(both.front(), -0.99296875F);
  EXPECT_FLOAT_EQ(both[126], -5.5e-7F);
  EXPECT_EQ(both[127], 0.0F);
  EXPECT_FLOAT_EQ(both[128], 5.5e-7F);
  EXPECT_FLOAT_EQ(both[254], 0.99296875F);
  EXPECT_EQ(both.back(), 1.0F);
  const DynamicMap& positive = unsigned_map();
  EXPECT_EQ(positive.front(), 0.0F);
  EXPECT_FLOAT_EQ(positive[1], 3.25e-7F);
  EXPECT_FLOAT_EQ(positive[2], 7.75e-7F);
  EXPECT_FLOAT_EQ(positive[254], 0.996484375F);
  EXPECT_EQ(positive.back(), 1.0F);
}

TEST_F(DynamicMaps, Ascend) {
  for (const DynamicMap* map : {&signed_map(), &unsigned_map()}) {
    EXPECT_TRUE(std::ranges::is_sorted(*map));
    EXPECT_TRUE(std::ranges::adjacent_find(*map) == map->end()) << "each number once";
  }
}

TEST_F(DynamicMaps, TheNearestOfAllNumbers) {
  for (const DynamicMap* map : {&signed_map(), &unsigned_map()}) {
    const NearestPlaces nearest(*map);
    for (int round = 0; round < 3000; ++round) {
      const double size = std::exp2(random.uniform(-35.0, 0.5));
      const auto x = static_cast<float>(random.pick({-1.0, 1.0}) * size);
      float least = std::numeric_limits<float>::infinity();
      for (const float number : *map) least = std::min(least, std::abs(x - number));
      // Beside a middle, rounded to f32, either neighbour is as near as the other.
      ASSERT_NEAR(std::abs(x - (*map)[nearest(x)]), least, 1e-6F * std::abs(x)) << x;
    }
    for (std::size_t place = 0; place < kMapNumbers; ++place) {
      ASSERT_EQ(nearest((*map)[place]), place);
    }
    EXPECT_EQ((*map)[nearest(0.0F)], 0.0F);
    EXPECT_EQ((*map)[nearest(-0.0F)], 0.0F);
    EXPECT_EQ(nearest(1e30F), kMapNumbers - 1);
    EXPECT_EQ(nearest(-1e30F), 0U);
  }
}

TEST_F(DynamicMaps, EveryCellOfTheTableHasAtMostOneMiddle) {
  for (const DynamicMap* map : {&signed_map(), &unsigned_map()}) {
    const NearestPlaces nearest(*map);
    for (std::size_t place = 0; place + 1 < kMapNumbers; ++place) {
      const float step = (*map)[place + 1] - (*map)[place];
      EXPECT_EQ(nearest((*map)[place] + 0.49F * step), place);
      EXPECT_EQ(nearest((*map)[place] + 0.51F * step), place + 1);
    }
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
