#include "chapters/07_pipeline_parallel/schedule/placement.hpp"

#include <gtest/gtest.h>

namespace ultra::pipeline_parallel {
namespace {

TEST(Placement, LoopsOnceRoundTheRanksForEachChunk) {
  const Placement loop = Placement::loop(3, 2);
  EXPECT_EQ(loop.parts(), 6U);
  EXPECT_EQ(loop.chunks(), 2U);
  EXPECT_EQ(loop.at(2), (Place{.stage = 2, .chunk = 0}));
  EXPECT_EQ(loop.at(3), (Place{.stage = 0, .chunk = 1}));
}

TEST(Placement, OfAVHasBothEndsOnTheFirstRank) {
  const Placement v = Placement::v_shape(3);
  EXPECT_EQ(v.at(0), (Place{.stage = 0, .chunk = 0}));
  EXPECT_EQ(v.at(2), (Place{.stage = 2, .chunk = 0}));
  EXPECT_EQ(v.at(3), (Place{.stage = 2, .chunk = 1}));
  EXPECT_EQ(v.at(5), (Place{.stage = 0, .chunk = 1}));
}

TEST(Placement, FindsThePartOfEveryPlace) {
  for (const Placement& placement :
       {Placement::loop(1), Placement::loop(4, 3), Placement::v_shape(1), Placement::v_shape(5)}) {
    for (std::size_t part = 0; part < placement.parts(); ++part) {
      EXPECT_EQ(placement.part_at(placement.at(part)), part);
    }
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
