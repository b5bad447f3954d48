#include "chapters/04_zero/units.hpp"

#include <algorithm>
#include <optional>

namespace ultra::zero {

UnitActions gathers_of(const Units& units) {
  return {.start_gather =
              [&units](const UnitUse& use) {
                units[use.unit]->next_use(use.kind);
                units[use.unit]->start_gather();
              },
          .wait = [&units](std::size_t unit) { units[unit]->wait(); },
          .release = [&units](std::size_t unit) { units[unit]->release(); }};
}

Reshard reshard_in(const train::StepSchedule& schedule, Reshard wanted) {
  const bool trains = std::ranges::any_of(schedule, &train::Action::makes_gradients);
  return trains ? wanted : Reshard::kAfterForward;
}

std::vector<ChunkUnits> units_of_chunks(const std::vector<nn::Model*>& chunks,
                                        const std::vector<ParameterGroup>& groups) {
  std::vector<ChunkUnits> units;
  for (const nn::Model* chunk : chunks) {
    units.push_back({.units = std::vector<std::optional<std::size_t>>(chunk->parts().size()),
                     .blocks = chunk->block_parts()});
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    ChunkUnits& chunk = units.at(groups[g].chunk);
    chunk.units.at(groups[g].part) = g;
    if (groups[g].is_tied && groups[g].part < chunk.blocks.begin) chunk.tied = g;
  }
  return units;
}

}  // namespace ultra::zero
