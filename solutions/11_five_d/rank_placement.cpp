#include "chapters/11_five_d/planner/rank_placement.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"

namespace ultra::planner {
namespace {

/// Ranks that follow each other in even steps: 0, step, 2 step, ...
struct Evenly {
  std::size_t count;
  std::size_t step;
};

/// How the groups of an axis lie among the ranks: each is one of `members`, moved by one of `near`
/// and one of `far`.
struct Pattern {
  std::vector<std::vector<std::size_t>> members;
  Evenly near;
  Evenly far;
};

std::vector<std::size_t> ranks_of(Evenly places) {
  std::vector<std::size_t> ranks(places.count);
  for (std::size_t i = 0; i < places.count; ++i) ranks[i] = i * places.step;
  return ranks;
}

/// The groups of `size` into which the numbers that dp and cp count together are cut, without those
/// that lie on their nodes as another does.
std::vector<std::vector<std::size_t>> data_groups(const Layout& layout, std::size_t size,
                                                  std::size_t gpus_per_node) {
  const std::size_t stride = stride_of(layout, PlanAxis::kData);
  const auto rank_of = [&](std::size_t number) {
    return number / layout.cp * stride + number % layout.cp * layout.tp;
  };
  std::vector<std::vector<std::size_t>> groups;
  std::set<std::pair<std::size_t, std::size_t>> seen;  // part of its first rank, place on its node
  for (std::size_t begin = 0; begin < layout.dp * layout.cp; begin += size) {
    if (!seen.emplace(begin % layout.cp, rank_of(begin) % gpus_per_node).second) continue;
    std::vector<std::size_t>& members = groups.emplace_back(size);
    for (std::size_t i = 0; i < size; ++i) members[i] = rank_of(begin + i);
  }
  return groups;
}

Pattern pattern_of(const Layout& layout, PlanAxis axis, std::size_t gpus_per_node) {
  const std::size_t inside = layout.tp * layout.cp;
  const Evenly tensor{layout.tp, 1};
  const Evenly stages{layout.pp, stride_of(layout, PlanAxis::kPipeline)};
  const Evenly replicas{layout.dp, stride_of(layout, PlanAxis::kData)};
  switch (axis) {
    case PlanAxis::kTensor:
      return {{ranks_of(tensor)}, {1, 0}, {layout.gpus() / layout.tp, layout.tp}};
    case PlanAxis::kContext:
      return {{ranks_of({layout.cp, layout.tp})}, tensor, {layout.gpus() / inside, inside}};
    case PlanAxis::kPipeline:
      return {{ranks_of(stages)}, {inside, 1}, replicas};
    case PlanAxis::kData:
      return {data_groups(layout, layout.dp * layout.cp, gpus_per_node), tensor, stages};
    case PlanAxis::kExpert:
      return {data_groups(layout, layout.ep, gpus_per_node), tensor, stages};
  }
  throw InternalError("an axis has no groups");
}

/// Makes `worst` as bad as a group that begins at `first` on its node.
void note_group(const std::vector<std::size_t>& members, std::size_t first,
                std::size_t gpus_per_node, replay::GroupPlacement& worst) {
  std::size_t nodes = 0;
  std::size_t here = 0;
  std::size_t last = 0;
  for (const std::size_t member : members) {
    const std::size_t node = (member + first) / gpus_per_node;
    const bool moved_on = nodes == 0 || node != last;
    here = moved_on ? 1 : here + 1;
    if (moved_on) ++nodes;
    worst.per_node = std::max(worst.per_node, here);
    last = node;
  }
  worst.nodes = std::max(worst.nodes, nodes);
}

}  // namespace

// [region placement]
std::size_t stride_of(const Layout& layout, PlanAxis axis) {
  const std::size_t inside = layout.tp * layout.cp;
  const bool data_outermost = layout.outermost == Outermost::kData;
  switch (axis) {
    case PlanAxis::kTensor:
      return 1;
    case PlanAxis::kContext:
      return layout.tp;
    case PlanAxis::kPipeline:
      return data_outermost ? inside : inside * layout.dp;
    case PlanAxis::kData:
    case PlanAxis::kExpert:
      return data_outermost ? inside * layout.pp : inside;
  }
  throw InternalError("an axis has no stride");
}

replay::GroupPlacement placement_of(const Layout& layout, PlanAxis axis,
                                    std::size_t gpus_per_node) {
  const Pattern pattern = pattern_of(layout, axis, gpus_per_node);
  replay::GroupPlacement worst{.ranks = pattern.members.front().size(), .per_node = 0, .nodes = 0};
  // What counts is where on its node a group begins: after as many steps as a node has GPUs, the
  // places repeat.
  const std::size_t near = std::min(pattern.near.count, gpus_per_node);
  const std::size_t far = std::min(pattern.far.count, gpus_per_node);
  std::vector<bool> seen(gpus_per_node);
  for (std::size_t i = 0; i < near * far; ++i) {
    const std::size_t first = i % near * pattern.near.step + i / near * pattern.far.step;
    if (seen[first % gpus_per_node]) continue;
    seen[first % gpus_per_node] = true;
    for (const std::vector<std::size_t>& members : pattern.members) {
      note_group(members, first, gpus_per_node, worst);
    }
  }
  return worst;
}
// [/region]

}  // namespace ultra::planner
