#include "chapters/11_five_d/composition/data_traffic.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "chapters/01_memory/gradient_accumulation.hpp"
#include "chapters/04_zero/prefetch.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/11_five_d/composition/flat_arrays.hpp"
#include "chapters/11_five_d/composition/rank_activations.hpp"
#include "chapters/11_five_d/composition/rank_tensors.hpp"

namespace ultra::five_d {
namespace {

/// The parts of a stage's chunks as units, numbered as their arrays.
std::vector<zero::ChunkUnits> units_of(const train::Setup& setup, std::size_t stage,
                                       const std::vector<FlatArray>& arrays) {
  const std::vector<nn::StageSpec> chunks = chunks_of(setup, stage);
  const bool tied = setup.train.model.tied_embeddings;
  std::vector<zero::ChunkUnits> units;
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    const nn::StageSpec& spec = chunks[chunk];
    const std::size_t first = spec.has_embedding ? 1 : 0;
    const std::size_t blocks = first + spec.layers.size();
    const std::size_t heads = !spec.has_head ? 0 : tied && !spec.has_embedding ? 2 : 1;
    zero::ChunkUnits own{.units = std::vector<std::optional<std::size_t>>(blocks + heads),
                         .blocks = {first, blocks}};
    for (std::size_t array = 0; array < arrays.size(); ++array) {
      if (arrays[array].chunk == chunk) own.units[arrays[array].part] = array;
    }
    if (tied && spec.has_embedding && spec.has_head) own.tied = own.units.front();
    units.push_back(std::move(own));
  }
  return units;
}

/// How often the weights of each array are gathered in a step.
std::vector<std::size_t> gathers_of(const train::Setup& setup, std::size_t stage,
                                    const std::vector<FlatArray>& arrays,
                                    std::size_t micro_batches) {
  const pipeline_parallel::PipelineSchedule* schedule = pipeline_parallel::schedule_of(setup);
  const zero::ZeroSettings settings = zero::zero_of(setup).settings(setup);
  const std::vector<zero::UnitUse> uses = zero::unit_uses(
      schedule ? schedule->ranks[stage] : memory::accumulation_schedule(micro_batches),
      units_of(setup, stage, arrays), settings.recompute_every);
  std::vector<std::size_t> gathers(arrays.size(), 0);
  zero::Prefetch prefetch(settings.prefetch,
                          {.start_gather = [&](const zero::UnitUse& use) { ++gathers[use.unit]; },
                           .wait = [](std::size_t) {},
                           .release = [](std::size_t) {}});
  prefetch.follow(uses, settings.reshard);
  for (const zero::UnitUse& use : uses) {
    prefetch.gather(use.unit);
    prefetch.free(use.unit);
  }
  return gathers;
}

/// Of the ranks of one data group of one stage.
std::size_t group_elements(const train::Setup& setup, std::size_t stage, DataGroup group) {
  const std::vector<FlatArray> arrays = flat_arrays(setup, rank_tensors(setup, stage), group);
  const Sharing sharing = sharing_of(setup, group);
  const zero::ZeroStage zero = zero::zero_of(setup).options().stage;
  const std::size_t micro_batches = micro_batches_of(setup, 0).size();
  std::vector<std::size_t> gathers(arrays.size(), zero == zero::ZeroStage::kNone ? 0 : 1);
  if (zero::shards_parameters(zero)) gathers = gathers_of(setup, stage, arrays, micro_batches);
  const std::size_t reductions = zero::shards_gradients(zero) ? micro_batches : 1;
  std::size_t elements = 0;
  for (std::size_t array = 0; array < arrays.size(); ++array) {
    const std::size_t n = arrays[array].layout.padded;
    const std::size_t scatters = zero == zero::ZeroStage::kNone ? 0 : reductions;
    elements += (scatters + gathers[array]) * sharing.copies * (sharing.shards - 1) * n;
    elements += 2 * (sharing.copies - 1) * n;
  }
  return elements;
}

}  // namespace

std::size_t data_elements(const train::Setup& setup) {
  std::size_t elements = 0;
  for (std::size_t stage = 0; stage < setup.ranks_along(pipeline_parallel::kAxis); ++stage) {
    elements += group_elements(setup, stage, DataGroup::kAll);
    elements += setup.ranks_along(expert_parallel::kAxis) *
                group_elements(setup, stage, DataGroup::kExperts);
  }
  return setup.ranks_along(tensor_parallel::kAxis) * elements;
}

}  // namespace ultra::five_d
