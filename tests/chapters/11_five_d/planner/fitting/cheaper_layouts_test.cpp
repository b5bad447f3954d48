// The list of remedies.
//
// Covers: chapters/11_five_d/planner/fit.hpp
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "chapters/11_five_d/planner/fit.hpp"

namespace ultra::planner {
namespace {

using memory::Recompute;
using zero::ZeroStage;

TEST(CheaperLayouts, FromTheCheapestToTheDearest) {
  const std::vector<Layout> list = cheaper_layouts({.dp = 8, .micro_batch = 4});
  ASSERT_GE(list.size(), 7U);
  EXPECT_EQ(list[0].zero, ZeroStage::kGradients);
  EXPECT_EQ(list[1].zero, ZeroStage::kParameters);
  EXPECT_EQ(list[2].recompute, Recompute::kSelective);
  EXPECT_EQ(list[3].recompute, Recompute::kFull);
  EXPECT_EQ(list[4].micro_batch, 2U);
  EXPECT_EQ(list[5].micro_batch, 1U);
  EXPECT_TRUE(list[6].offload);
  EXPECT_TRUE(list.back().offload);
  EXPECT_EQ(list.back().zero, ZeroStage::kParameters);
}

TEST(CheaperLayouts, NobodyToShareWithNoZero) {
  for (const Layout& layout : cheaper_layouts({.tp = 8})) {
    EXPECT_EQ(layout.zero, ZeroStage::kOptimizer);
    EXPECT_EQ(layout.tp, 8U);
  }
}

TEST(CheaperLayouts, SameGpusAlways) {
  for (const Layout& layout : cheaper_layouts({.dp = 4, .pp = 2, .tp = 2})) {
    EXPECT_EQ(layout.gpus(), 16U);
  }
}

}  // namespace
}  // namespace ultra::planner
