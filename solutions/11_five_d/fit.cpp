#include "chapters/11_five_d/planner/fit.hpp"

#include <algorithm>
#include <array>

namespace ultra::planner {
namespace {

std::string largest_part_of(const StageMemory& memory) {
  const std::array<double, kMemoryParts.size()> parts = {memory.parameters, memory.gradients,
                                                         memory.optimizer,  memory.activations,
                                                         memory.transient,  memory.overhead};
  const auto largest = std::ranges::max_element(parts) - parts.begin();
  return std::string(kMemoryParts[static_cast<std::size_t>(largest)]);
}

}  // namespace

// [region fit]
Fit fit(const Question& question, const Layout& layout) {
  const double room = question.cluster.gpu.memory_bytes;
  Fit result{.memory = largest_stage(question, layout)};
  result.fits = result.memory.total() <= room;
  if (result.fits) return result;
  result.missing_bytes = result.memory.total() - room;
  result.largest_part = largest_part_of(result.memory);
  for (const Layout& cheaper : cheaper_layouts(layout)) {
    if (why_impossible(question.work, cheaper)) continue;
    if (largest_stage(question, cheaper).total() > room) continue;
    result.remedy = cheaper;
    break;
  }
  return result;
}
// [/region]

}  // namespace ultra::planner
