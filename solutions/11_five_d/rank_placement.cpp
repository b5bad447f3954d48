#include "chapters/11_five_d/planner/rank_placement.hpp"

#include <algorithm>
#include <vector>

#include "common/base/errors.hpp"

namespace ultra::planner {
namespace {

/// The ranks of the axis's group that rank 0 is in.
std::vector<std::size_t> first_group(const Layout& layout, PlanAxis axis) {
  const auto evenly = [](std::size_t count, std::size_t stride) {
    std::vector<std::size_t> ranks(count);
    for (std::size_t i = 0; i < count; ++i) ranks[i] = i * stride;
    return ranks;
  };
  const std::size_t stride = stride_of(layout, axis);
  switch (axis) {
    case PlanAxis::kTensor:
      return evenly(layout.tp, stride);
    case PlanAxis::kContext:
      return evenly(layout.cp, stride);
    case PlanAxis::kPipeline:
      return evenly(layout.pp, stride);
    case PlanAxis::kData:
    case PlanAxis::kExpert:
      break;
  }
  std::vector<std::size_t> ranks;
  for (std::size_t replica = 0; replica < layout.dp; ++replica) {
    for (std::size_t part = 0; part < layout.cp; ++part) {
      ranks.push_back(replica * stride + part * layout.tp);
    }
  }
  if (axis == PlanAxis::kExpert) ranks.resize(layout.ep);
  return ranks;
}

/// Ranks after which the groups of an axis repeat.
std::size_t span_of(const Layout& layout, PlanAxis axis) {
  switch (axis) {
    case PlanAxis::kTensor:
      return layout.tp;
    case PlanAxis::kContext:
      return layout.tp * layout.cp;
    case PlanAxis::kPipeline:
      return stride_of(layout, axis) * layout.pp;
    case PlanAxis::kData:
    case PlanAxis::kExpert:
      return stride_of(layout, axis) * layout.dp;
  }
  throw InternalError("an axis has no groups");
}

/// Whether a rank has number 0 in its group.
bool begins_group(const Layout& layout, PlanAxis axis, std::size_t rank) {
  const auto number = [&](std::size_t stride, std::size_t size) { return rank / stride % size; };
  switch (axis) {
    case PlanAxis::kTensor:
      return number(1, layout.tp) == 0;
    case PlanAxis::kContext:
      return number(layout.tp, layout.cp) == 0;
    case PlanAxis::kPipeline:
      return number(stride_of(layout, axis), layout.pp) == 0;
    case PlanAxis::kData:
      return number(layout.tp, layout.cp) == 0 && number(stride_of(layout, axis), layout.dp) == 0;
    case PlanAxis::kExpert: {
      const std::size_t replica = number(stride_of(layout, axis), layout.dp);
      return (replica * layout.cp + number(layout.tp, layout.cp)) % layout.ep == 0;
    }
  }
  throw InternalError("an axis has no groups");
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

GroupPlacement placement_of(const Layout& layout, PlanAxis axis, std::size_t gpus_per_node) {
  const std::vector<std::size_t> group = first_group(layout, axis);
  GroupPlacement worst{.ranks = group.size(), .per_node = 0, .nodes = 0};
  // The other groups are this one, moved to the ranks that come first in theirs. Where groups and
  // nodes divide each other, those that begin on the first node show all there is.
  const std::size_t span = span_of(layout, axis);
  const bool regular = span % gpus_per_node == 0 || gpus_per_node % span == 0;
  const std::size_t firsts = regular ? std::min(gpus_per_node, layout.gpus()) : layout.gpus();
  for (std::size_t first = 0; first < firsts; ++first) {
    if (!begins_group(layout, axis, first)) continue;
    std::size_t most = 0;
    std::size_t nodes = 0;
    std::size_t here = 0;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const std::size_t node = (group[i] + first) / gpus_per_node;
      const bool moved_on = i == 0 || node != (group[i - 1] + first) / gpus_per_node;
      here = moved_on ? 1 : here + 1;
      if (moved_on) ++nodes;
      most = std::max(most, here);
    }
    worst.per_node = std::max(worst.per_node, most);
    worst.nodes = std::max(worst.nodes, nodes);
  }
  return worst;
}
// [/region]

}  // namespace ultra::planner
