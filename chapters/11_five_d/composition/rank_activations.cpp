#include "chapters/11_five_d/composition/rank_activations.hpp"

#include <algorithm>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/01_memory/memory.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/07_pipeline_parallel/estimate/pipeline_table.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/08_expert_parallel/estimate/moe_memory.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/11_five_d/composition/mesh_place.hpp"
#include "chapters/11_five_d/composition/rank_tensors.hpp"

namespace ultra::five_d {
namespace {

/// A block with experts, of which each gets as many rows.
pipeline_parallel::BlockActivations mixed_block(const train::Setup& setup, std::size_t sequences) {
  const expert_parallel::ExpertParallelOptions& options = expert_parallel::options_of(setup);
  const expert_parallel::MoeModel model{.shape = memory::shape_of(setup.train.model),
                                        .moe = options.config(setup.train.model.ffn_hidden_size)};
  const expert_parallel::LocalMoe rank{.share = pipeline_parallel::rank_share(setup),
                                       .ep = options.ep};
  const expert_parallel::ExpertRows rows = expert_parallel::even_rows(model.moe, rank, sequences);
  const memory::NumberFormats precision = memory::formats_of(setup).activations;
  const auto bytes_of = [&](memory::Recompute mode) {
    return expert_parallel::moe_block_bytes(model, sequences, precision, mode, rank, rows);
  };
  return {.kept = bytes_of(memory::options_of(setup).recompute.mode),
          .whole = bytes_of(memory::Recompute::kNone),
          .waiting = expert_parallel::moe_waiting_bytes(model, sequences, precision, rank, rows),
          .deferred = expert_parallel::moe_deferred_bytes(model, sequences, precision, rank, rows)};
}

pipeline_parallel::StagedModel model_in_parts(const train::Setup& setup) {
  std::vector<std::size_t> layers;
  for (const nn::StageSpec& part : parts_of(setup)) layers.push_back(part.layers.size());
  pipeline_parallel::StagedModel model = pipeline_parallel::staged_model(setup, layers);
  if (expert_parallel::options_of(setup).has_experts()) {
    model.blocks = [&setup](std::size_t sequences) { return mixed_block(setup, sequences); };
  }
  return model;
}

}  // namespace

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

bool spreads_evenly(const train::Setup& setup) {
  const expert_parallel::ExpertParallelOptions& experts = expert_parallel::options_of(setup);
  if (!experts.has_experts()) return true;
  const expert_parallel::MoeConfig moe = experts.config(setup.train.model.ffn_hidden_size);
  const std::size_t tokens = pipeline_parallel::rank_share(setup).layout.local_seq_len();
  const bool padded =
      tokens * setup.ranks_along(context_parallel::kAxis) != setup.train.model.max_seq_len ||
      setup.train.global_batch % static_cast<std::size_t>(setup.replicas()) != 0;
  return moe.top_k == moe.num_experts && !moe.capacity_factor && !padded;
}

std::optional<std::size_t> activation_bytes(const train::Setup& setup, std::size_t rank) {
  using pipeline_parallel::StageSplit;
  const MeshPlace place = place_of(setup, rank);
  const std::vector<std::size_t> sequences = micro_batches_of(setup, place.replica);
  const pipeline_parallel::PipelineSchedule* schedule = pipeline_parallel::schedule_of(setup);
  if (schedule == nullptr) {
    const pipeline_parallel::StagedModel model = model_in_parts(setup);
    return pipeline_parallel::part_activations(model, model.parts.front(),
                                               std::ranges::max(sequences))
        .passing;
  }
  if (pipeline_parallel::options_of(setup).split.rule == StageSplit::Rule::kMeasured) return {};
  return pipeline_parallel::peak_activation_bytes(model_in_parts(setup), *schedule, place.stage,
                                                  sequences);
}

}  // namespace ultra::five_d
