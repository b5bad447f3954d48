#include "chapters/11_five_d/composition/rank_activations.hpp"

#include <algorithm>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/01_memory/memory.hpp"
#include "chapters/06_context_parallel/estimate/context_memory.hpp"
#include "chapters/07_pipeline_parallel/estimate/pipeline_table.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/11_five_d/composition/mesh_place.hpp"
#include "chapters/11_five_d/composition/rank_tensors.hpp"

namespace ultra::five_d {

std::vector<std::size_t> micro_batches_of(const train::Setup& setup, std::size_t replica) {
  const auto replicas = static_cast<std::size_t>(setup.replicas());
  const std::size_t batch = setup.train.global_batch;
  const std::size_t largest = batch / replicas + (batch % replicas > 0 ? 1 : 0);
  const std::size_t own = batch / replicas + (replica < batch % replicas ? 1 : 0);
  std::vector<std::size_t> sizes;
  for (std::size_t begin = 0; begin < largest; begin += setup.train.micro_batch) {
    sizes.push_back(begin < own ? std::min(setup.train.micro_batch, own - begin) : 1);
  }
  return sizes;
}

std::optional<std::size_t> activation_bytes(const train::Setup& setup, std::size_t rank) {
  using pipeline_parallel::StageSplit;
  if (expert_parallel::options_of(setup).has_experts()) return {};
  const MeshPlace place = place_of(setup, rank);
  const std::vector<std::size_t> sequences = micro_batches_of(setup, place.replica);
  const pipeline_parallel::PipelineSchedule* schedule = pipeline_parallel::schedule_of(setup);
  if (schedule == nullptr) {
    return context_parallel::peak_activation_bytes(
        memory::shape_of(setup.train.model), std::ranges::max(sequences),
        memory::precision_of(setup.train.dtype), memory::options_of(setup).recompute,
        pipeline_parallel::rank_share(setup));
  }
  if (pipeline_parallel::options_of(setup).split.rule == StageSplit::Rule::kMeasured) return {};
  std::vector<std::size_t> layers;
  for (const nn::StageSpec& part : parts_of(setup)) layers.push_back(part.layers.size());
  return pipeline_parallel::peak_activation_bytes(pipeline_parallel::staged_model(setup, layers),
                                                  *schedule, place.stage, sequences);
}

}  // namespace ultra::five_d
