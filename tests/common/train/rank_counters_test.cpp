#include "common/train/rank_counters.hpp"

#include <gtest/gtest.h>

namespace ultra::train {
namespace {

TEST(RankCounters, AddByName) {
  RankCounters counters;
  EXPECT_TRUE(counters.sums().empty());
  counters.add("blocks", 2);
  counters.add("flops", 0.5);
  counters.add("blocks", 3);
  EXPECT_EQ(counters.sums().at("blocks"), 5);
  EXPECT_EQ(counters.sums().at("flops"), 0.5);
  EXPECT_EQ(counters.sums().size(), 2U);
}

}  // namespace
}  // namespace ultra::train
