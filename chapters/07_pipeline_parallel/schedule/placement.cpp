#include "chapters/07_pipeline_parallel/schedule/placement.hpp"

#include <utility>

#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {

Placement Placement::loop(std::size_t stages, std::size_t chunks) {
  ensure(stages > 0 && chunks > 0, "a pipeline has a stage, and a stage a chunk");
  std::vector<ChunkSite> way;
  way.reserve(stages * chunks);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::size_t stage = 0; stage < stages; ++stage) way.push_back({stage, chunk});
  }
  return {stages, std::move(way)};
}

Placement Placement::v_shape(std::size_t stages) {
  ensure(stages > 0, "a pipeline has a stage");
  std::vector<ChunkSite> way;
  way.reserve(2 * stages);
  for (std::size_t stage = 0; stage < stages; ++stage) way.push_back({stage, 0});
  for (std::size_t stage = stages; stage-- > 0;) way.push_back({stage, 1});
  return {stages, std::move(way)};
}

Placement::Placement(std::size_t stages, std::vector<ChunkSite> way)
    : stages_(stages), way_(std::move(way)), parts_(way_.size()) {
  for (std::size_t part = 0; part < way_.size(); ++part) {
    parts_[way_[part].stage * chunks() + way_[part].chunk] = part;
  }
}

std::size_t Placement::part_at(ChunkSite site) const {
  ensure(site.stage < stages_ && site.chunk < chunks(), "a part is at every place of a pipeline");
  return parts_[site.stage * chunks() + site.chunk];
}

}  // namespace ultra::pipeline_parallel
