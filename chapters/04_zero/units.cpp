#include "chapters/04_zero/units.hpp"

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
