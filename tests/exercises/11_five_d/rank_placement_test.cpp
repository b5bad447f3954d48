// Contract of exercise 11.5: ranks on nodes.
#include "chapters/11_five_d/planner/rank_placement.hpp"

#include <array>
#include <map>
#include <set>

#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

constexpr const char* kStride =
    "Hint: an axis counts as many ranks per step as all faster axes have together.";
constexpr const char* kNodes = "Hint: rank r runs on node r / gpus_per_node.";
constexpr const char* kWorst =
    "Hint: groups that begin inside a node may cross one border more than the first group does.";

class RankPlacementTest : public ultra::test::RandomTest {
 protected:
  Layout draw() {
    Layout layout{.dp = random.between(1, 6),
                  .pp = random.between(1, 5),
                  .cp = random.between(1, 3),
                  .tp = random.between(1, 5)};
    layout.outermost = random.pick({Outermost::kData, Outermost::kPipeline});
    const std::size_t data = layout.dp * layout.cp;
    do {
      layout.ep = random.between(1, data);
    } while (data % layout.ep != 0);
    return layout;
  }
};

/// Coordinates of a rank: dp, pp, cp, tp.
std::array<std::size_t, 4> coordinates(const Layout& layout, std::size_t rank) {
  const std::size_t tp = rank % layout.tp;
  rank /= layout.tp;
  const std::size_t cp = rank % layout.cp;
  rank /= layout.cp;
  if (layout.outermost == Outermost::kData) {
    return {rank / layout.pp, rank % layout.pp, cp, tp};
  }
  return {rank % layout.dp, rank / layout.dp, cp, tp};
}

/// What ranks of one group have in common.
std::array<std::size_t, 5> group_of(const Layout& layout, PlanAxis axis, std::size_t rank) {
  const auto [dp, pp, cp, tp] = coordinates(layout, rank);
  switch (axis) {
    case PlanAxis::kTensor:
      return {dp, pp, cp, 0, 0};
    case PlanAxis::kContext:
      return {dp, pp, 0, tp, 0};
    case PlanAxis::kPipeline:
      return {dp, 0, cp, tp, 0};
    case PlanAxis::kData:
      return {0, pp, 0, tp, 0};
    case PlanAxis::kExpert:
      return {0, pp, 0, tp, (dp * layout.cp + cp) / layout.ep};
  }
  return {};
}

/// Every rank put into its group and onto its node.
replay::GroupPlacement by_counting(const Layout& layout, PlanAxis axis, std::size_t gpus_per_node) {
  std::map<std::array<std::size_t, 5>, std::map<std::size_t, std::size_t>> groups;
  for (std::size_t rank = 0; rank < layout.gpus(); ++rank) {
    ++groups[group_of(layout, axis, rank)][rank / gpus_per_node];
  }
  replay::GroupPlacement worst{.ranks = 0, .per_node = 0, .nodes = 0};
  for (const auto& [group, nodes] : groups) {
    std::size_t ranks = 0;
    for (const auto& [node, count] : nodes) {
      ranks += count;
      worst.per_node = std::max(worst.per_node, count);
    }
    worst.ranks = ranks;
    worst.nodes = std::max(worst.nodes, nodes.size());
  }
  return worst;
}

constexpr std::array<PlanAxis, 5> kAxes = {PlanAxis::kTensor, PlanAxis::kContext,
                                           PlanAxis::kPipeline, PlanAxis::kData, PlanAxis::kExpert};

TEST_F(RankPlacementTest, StepsOfAnExampleByHand) {
  Layout layout{.dp = 3, .pp = 5, .cp = 2, .tp = 4};
  EXPECT_EQ(stride_of(layout, PlanAxis::kTensor), 1U) << kStride;
  EXPECT_EQ(stride_of(layout, PlanAxis::kContext), 4U) << kStride;
  EXPECT_EQ(stride_of(layout, PlanAxis::kPipeline), 8U) << kStride;
  EXPECT_EQ(stride_of(layout, PlanAxis::kData), 40U) << kStride;
  layout.outermost = Outermost::kPipeline;
  EXPECT_EQ(stride_of(layout, PlanAxis::kData), 8U) << kStride;
  EXPECT_EQ(stride_of(layout, PlanAxis::kExpert), 8U) << kStride;
  EXPECT_EQ(stride_of(layout, PlanAxis::kPipeline), 24U) << kStride;
}

TEST_F(RankPlacementTest, EveryAxisAsCountedRankByRank) {
  for (int round = 0; round < 600; ++round) {
    const Layout layout = draw();
    const std::size_t node = random.between(1, 9);
    for (const PlanAxis axis : kAxes) {
      const replay::GroupPlacement found = placement_of(layout, axis, node);
      const replay::GroupPlacement counted = by_counting(layout, axis, node);
      const std::string what =
          fmt::format("{}, ep {}, nodes of {}, {}, axis {}", layout.str(), layout.ep, node,
                      layout.outermost == Outermost::kData ? "dp outermost" : "pp outermost",
                      static_cast<int>(axis));
      EXPECT_EQ(found.ranks, counted.ranks) << what;
      EXPECT_EQ(found.per_node, counted.per_node) << what << "\n" << kNodes << "\n" << kWorst;
      EXPECT_EQ(found.nodes, counted.nodes) << what << "\n" << kWorst;
    }
  }
}

}  // namespace
}  // namespace ultra::planner
