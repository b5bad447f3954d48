#include "chapters/11_five_d/planner/time/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "chapters/02_collectives/cost/exchange_price.hpp"
#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/11_five_d/planner/memory/stage_parameters.hpp"
#include "chapters/11_five_d/planner/rank_placement.hpp"
#include "chapters/11_five_d/planner/time/block_time.hpp"
#include "chapters/11_five_d/planner/time/pipeline_time.hpp"
#include "common/base/numeric.hpp"
#include "common/optim/newton_schulz.hpp"
#include "common/replay/cluster/placement.hpp"
#include "common/replay/prices.hpp"
#include "common/replay/product_time.hpp"

namespace ultra::planner {
namespace {

constexpr std::size_t kBytes = 4;  // directions are in fp32

double newton_schulz_seconds(const replay::GpuType& gpu, std::size_t rows, std::size_t columns) {
  const double m = real(std::min(rows, columns));
  const double n = real(std::max(rows, columns));
  const double peak = replay::peak_flops(gpu, kBytes);
  double seconds = 0;
  for (const replay::ProductShape& shape :
       {replay::ProductShape{.m = m, .k = n, .n = m}, replay::ProductShape{.m = m, .k = m, .n = m},
        replay::ProductShape{.m = m, .k = m, .n = n}}) {
    seconds += replay::product_seconds(gpu, shape, real(kBytes), peak);
  }
  return real(optim::NewtonSchulz{}.steps) * seconds;
}

/// Of the matrices of one block.
double seconds_of_block(const Question& question, bool experts) {
  const memory::TransformerShape& s = question.work.model.shape();
  const expert_parallel::MoeConfig& moe = question.work.model.layers.moe;
  const auto of = [&](std::size_t rows, double times) {
    return times * newton_schulz_seconds(question.cluster.gpu, rows, s.hidden_size);
  };
  const double attention = of(s.hidden_size, 2) + of(s.kv_hidden_size(), 2);
  if (!experts) {
    return attention + of(s.ffn_hidden_size, s.kind == memory::BlockKind::kGpt ? 2 : 3);
  }
  return attention + of(moe.num_experts, 1) +
         of(moe.expert_ffn, 3 * real(moe.num_experts + moe.shared_experts));
}

double there_and_back(const Question& question, const replay::GroupPlacement& group,
                      double elements) {
  if (group.ranks == 1) return 0;
  const double lacking = real(kBytes) * elements * real(group.ranks - 1) / real(group.ranks);
  return 2 * collectives::all_to_all_seconds(question.cluster, group, lacking, lacking);
}

/// @brief Newton-Schulz steps of the matrices that a rank owns, in fp32, and the exchanges there and back
/// of their parts, over the ranks that share states and over tp; 0 for a rule without whole matrices.
///
/// The matrices of a stage are dealt out evenly; without ZeRO each replica transforms all of them.
/// Source: chapters/04_zero/whole_matrices; arXiv 2502.16982, section 2.3.
/// @param held     of the stage.
/// @param sharing  the ranks that share a copy of the states; one without ZeRO.
double whole_matrices_seconds(const Question& question, const Layout& layout,
                              const StageParameters& held, const replay::GroupPlacement& sharing) {
  if (!optim::needs_whole_matrices(question.work.optimizer)) return 0;
  const ModelShape& model = question.work.model;
  const double blocks = real(model.shape().num_layers) / real(layout.pp);
  const double mixed = model.has_experts()
                           ? real(model.shape().num_layers - model.layers.dense_blocks) /
                                 real(model.shape().num_layers)
                           : 0;
  const double all = blocks * ((1 - mixed) * seconds_of_block(question, false) +
                               (mixed > 0 ? mixed * seconds_of_block(question, true) : 0));
  const auto node = static_cast<std::size_t>(question.cluster.gpus_per_node);
  const double own = (held.trained_matrices() + held.experts) / real(sharing.ranks);
  return held.trained_part() * all / real(layout.tp * sharing.ranks) +
         there_and_back(question, sharing, own) +
         there_and_back(question, placement_of(layout, PlanAxis::kTensor, node), own);
}

/// What a stage does for one micro-batch.
struct StageWork {
  PassSeconds passes;    // forward, backward and again
  double recompute = 0;  // of them
  StageSeconds seconds;  // as the schedule sees them
};

void add(StageWork& work, const BlockSeconds& block, double times) {
  work.passes.add(block.forward, times);
  work.passes.add(block.recompute, times);
  work.passes.add(block.backward, times);
  work.recompute += times * block.recompute.total();
  work.seconds.forward += times * block.forward.total();
  work.seconds.backward += times * (block.recompute.total() + block.backward.total());
  work.seconds.weight_gradients += times * block.weight_gradients;
}

/// With weight gradients of a part of its matrices alone: their products, as many as forward, and adding
/// them up.
BlockSeconds with_gradients_of(double part, BlockSeconds block) {
  const double none = (1 - part) * block.weight_gradients;
  const double products = (1 - part) * block.forward.products;
  block.backward.products -= products;
  block.backward.elementwise -= none - products;
  block.weight_gradients -= none;
  return block;
}

BlockSeconds trained_head(const Question& question, const Layout& layout) {
  const double part = question.work.model.frozen.output_table ? 0 : 1;
  return with_gradients_of(part, head_seconds(question, layout));
}

std::vector<StageWork> stage_works(const Question& question, const Layout& layout,
                                   const std::vector<std::size_t>& blocks) {
  const ModelShape& model = question.work.model;
  const bool any_dense = !model.has_experts() || model.layers.dense_blocks > 0;
  const BlockSeconds dense = any_dense ? block_seconds(question, layout, false) : BlockSeconds{};
  const BlockSeconds mixed =
      model.has_experts() ? block_seconds(question, layout, true) : BlockSeconds{};
  std::vector<StageWork> works(blocks.size());
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const std::size_t with_experts = expert_blocks(model, blocks, stage);
    const double part = stage_parameters(model, layout, blocks, stage).trained_part();
    add(works[stage], with_gradients_of(part, dense), real(blocks[stage] - with_experts));
    add(works[stage], mixed, real(with_experts));
  }
  add(works.front(), embedding_seconds(question, layout), 1);
  add(works[output_stage(layout)], trained_head(question, layout), 1);
  return works;
}

replay::GroupPlacement data_group(const Question& question, const Layout& layout) {
  return placement_of(layout, PlanAxis::kData,
                      static_cast<std::size_t>(question.cluster.gpus_per_node));
}

/// Of a group, every so many-th rank: those that hold the same experts, or the same shard.
replay::GroupPlacement every(std::size_t step, replay::GroupPlacement group) {
  group.per_node = std::max<std::size_t>(1, group.per_node / step);
  group.ranks /= step;
  group.nodes = std::min(group.nodes, group.ranks);
  if (group.nodes == 1) group.per_node = group.ranks;
  return group;
}

/// So many neighbours of a group.
replay::GroupPlacement neighbours(std::size_t ranks, replay::GroupPlacement group) {
  group.ranks = ranks;
  group.per_node = std::min(group.per_node, ranks);
  group.nodes = (ranks + group.per_node - 1) / group.per_node;
  return group;
}

/// The latencies of an exchange that is made in so many pieces for each block, beside the one that a
/// single exchange has.
double latencies(const Question& question, const Layout& layout,
                 const replay::GroupPlacement& group, double pieces) {
  const double all = pieces * real(question.work.model.shape().num_layers) / real(layout.pp);
  return (all - 1) * collectives::gather_seconds(question.cluster, group, 0);
}

/// ZeRO-1's, one for each weight or in buckets, which are few.
double tensor_latencies(const Question& question, const Layout& layout,
                        const replay::GroupPlacement& group) {
  constexpr double kTensorsPerBlock = 6;  // query, key and value; output; gate and up; down; norms
  return question.software.exchanges_each_tensor
             ? latencies(question, layout, group, kTensorsPerBlock)
             : 0;
}

/// Bytes of an element of the gradients that replicas exchange.
double gradient_element(const Question& question, const Layout& layout) {
  return layout.precision == memory::NumberFormats::kBf16MixedFp32Grads
             ? question.software.exchanged_gradient_bytes
             : real(memory::bytes_per_parameter(layout.precision).parameters);
}

/// The sum of a rank's shard over the copies of hybrid sharding.
double copies_seconds(const Question& question, const Layout& layout, double parameters) {
  if (layout.copies == 1) return 0;
  return collectives::all_reduce_seconds(
      question.cluster, every(layout.shard_ranks(), data_group(question, layout)),
      gradient_element(question, layout) * parameters / real(layout.shard_ranks()));
}

/// Of parameters, some of which are trained.
void add_exchange(DataSeconds& data, const Question& question, const Layout& layout,
                  const replay::GroupPlacement& holders, double parameters, double trained) {
  if (holders.ranks == 1 || parameters == 0) return;
  const double element = real(memory::bytes_per_parameter(layout.precision).parameters);
  const double of_gradient = gradient_element(question, layout);
  const replay::GroupPlacement group = neighbours(holders.ranks / layout.copies, holders);
  const double scatter =
      collectives::gather_seconds(question.cluster, group, of_gradient * trained);
  const double gathered = zero::shards_parameters(layout.zero) ? parameters : trained;
  const double gather = collectives::gather_seconds(question.cluster, group, element * gathered);
  switch (layout.zero) {
    case zero::ZeroStage::kNone:
      data.gradients +=
          collectives::all_reduce_seconds(question.cluster, group, of_gradient * trained);
      return;
    case zero::ZeroStage::kOptimizer:
      data.gradients += scatter + tensor_latencies(question, layout, group);
      data.parameters += gather + tensor_latencies(question, layout, group);
      return;
    case zero::ZeroStage::kGradients:
      data.each_micro_batch += scatter;
      data.parameters += gather;
      return;
    case zero::ZeroStage::kParameters:
      data.each_micro_batch += 2 * gather + scatter + 3 * latencies(question, layout, group, 1);
      return;
  }
}

/// Whether exchanges of replicas run beside passes.
bool hides_data(const Question& question, const Layout& layout) {
  const bool inside = data_group(question, layout).nodes == 1;
  return question.software.overlaps_data && !(question.cluster.ranks_copy && inside);
}

/// Messages between stages, each rank of tp with its part of the tokens where it has one.
double stage_message(const Question& question, const Layout& layout) {
  const double tokens = real(layout.micro_batch * question.work.seq_len) / real(layout.cp);
  const double bytes = real(memory::activation_element_bytes(layout.precision)) * tokens *
                       real(question.work.model.shape().hidden_size) / real(layout.tp);
  return replay::message_seconds(
      question.cluster,
      placement_of(layout, PlanAxis::kPipeline,
                   static_cast<std::size_t>(question.cluster.gpus_per_node)),
      bytes);
}

/// Blocks of each chunk of a stage: as even as can be; the first stage's first chunk, which has the
/// input table, and the other stages' last ones have fewer.
std::vector<std::size_t> blocks_of_chunks(const Layout& layout, std::size_t stage,
                                          std::size_t blocks) {
  const std::size_t chunks = layout.schedule.chunks();
  std::vector<std::size_t> counts(chunks, (blocks + chunks - 1) / chunks);
  const bool first = stage == 0 && !layout.schedule.is_v_shaped();
  for (std::size_t missing = chunks * counts.front() - blocks; missing > 0; --missing) {
    --counts[first ? missing - 1 : chunks - missing];
  }
  return counts;
}

/// A part of a stage without its head.
pipeline_parallel::PartCost part_of(const StageSeconds& stage, const StageSeconds& head,
                                    double share) {
  const double weights = share * (stage.weight_gradients - head.weight_gradients);
  return {.forward = share * (stage.forward - head.forward),
          .backward_input = share * (stage.backward - head.backward) - weights,
          .backward_weight = weights};
}

/// What each part of the model costs, and what travels between two.
PipelineCosts pipeline_costs(const StepParts& parts, const std::vector<std::size_t>& blocks,
                             const Question& question, const Layout& layout) {
  StageWork head;
  add(head, trained_head(question, layout), 1);
  const auto placement = pipeline_parallel::placement_of(layout.schedule, layout.pp);
  PipelineCosts costs{.schedule = layout.schedule,
                      .stages = layout.pp,
                      .micro_batches = parts.micro_batches,
                      .until_the_end = !question.software.validates_later};
  for (std::size_t part = 0; part < placement.parts(); ++part) {
    const auto [stage, chunk] = placement.at(part);
    const double share = real(blocks_of_chunks(layout, stage, blocks[stage])[chunk]) /
                         real(std::max<std::size_t>(1, blocks[stage]));
    const bool holds_head = stage == output_stage(layout);
    costs.parts.push_back(
        part_of(parts.stages[stage], holds_head ? head.seconds : StageSeconds{}, share));
  }
  pipeline_parallel::PartCost& last = costs.parts.back();
  last.forward += head.seconds.forward;
  last.backward_input += head.seconds.backward - head.seconds.weight_gradients;
  last.backward_weight += head.seconds.weight_gradients;
  return costs;
}

/// With the messages: hidden ones travel beside passes, others hold up the rank that sends them.
PipelineCosts with_messages(PipelineCosts costs, const StepParts& parts) {
  if (parts.hides_messages) {
    costs.link.seconds_per_byte = parts.message;
    return costs;
  }
  for (std::size_t part = 0; part < costs.parts.size(); ++part) {
    if (part + 1 < costs.parts.size()) costs.parts[part].forward += parts.message;
    if (part > 0) costs.parts[part].backward_input += parts.message;
  }
  return costs;
}

/// The same step, with bubble and messages as the simulator has them.
StepSeconds with_simulated_pipeline(StepSeconds step, const StepParts& parts,
                                    const std::vector<std::size_t>& blocks,
                                    const Question& question, const Layout& layout) {
  const PipelineCosts costs = pipeline_costs(parts, blocks, question, layout);
  const double alone = std::max(step.passes, pipeline_seconds(costs));
  step.bubble = alone - step.passes;
  step.messages = std::max(0.0, pipeline_seconds(with_messages(costs, parts)) - alone);
  return step;
}

/// Takes from the exchanges what no pass hides: ZeRO-1's and 2's new weights after the update; of
/// each pass of ZeRO-3 the first block's weights, of a backward pass the last block's sum.
double take_what_never_hides(StepParts& parts, const Question& question, const Layout& layout) {
  if (!parts.hides_data || question.software.gathers_ahead) return 0;
  const double blocks = real(question.work.model.shape().num_layers) / real(layout.pp);
  const double ends = parts.data.each_micro_batch / blocks;
  parts.data.each_micro_batch -= ends;
  return std::exchange(parts.data.parameters, 0) + real(parts.micro_batches) * ends;
}

/// The same step, with what computation loses to exchanges beside it: a part of what is hidden.
StepSeconds with_exchanges(StepSeconds step, const StepParts& parts, const Question& question,
                           const Layout& layout) {
  if (!parts.hides_data) return step;
  const DataSeconds& data = parts.data;
  const double beside =
      data.gradients + data.parameters + real(parts.micro_batches) * data.each_micro_batch;
  const bool crosses = data_group(question, layout).nodes > 1;
  if (crosses) step.data += question.cluster.network_steals * (beside - step.data);
  return step;
}

StageParameters largest_parameters(const Question& question, const Layout& layout,
                                   const std::vector<std::size_t>& blocks) {
  StageParameters largest;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const StageParameters held = stage_parameters(question.work.model, layout, blocks, stage);
    if (held.total() > largest.total()) largest = held;
  }
  return largest;
}

}  // namespace

DataSeconds data_exchange(const Question& question, const Layout& layout,
                          const StageParameters& held) {
  const replay::GroupPlacement group = data_group(question, layout);
  Question asked = question;
  if (question.software.data_nics > 0) asked.cluster.nics_per_node = question.software.data_nics;
  DataSeconds data;
  add_exchange(data, asked, layout, group, held.others, held.trained());
  add_exchange(data, asked, layout, every(layout.ep, group), held.experts, held.experts);
  data.gradients += copies_seconds(asked, layout, held.total() - held.frozen);
  return data;
}

double optimizer_seconds(const Question& question, const Layout& layout,
                         const StageParameters& held) {
  const std::size_t ranks = zero::shards_optimizer(layout.zero) ? layout.shard_ranks() : 1;
  const double own = held.trained() / real(ranks) +
                     held.experts / real(std::max<std::size_t>(1, ranks / layout.ep));
  // Master weight, two moments read and written, gradient read, weight written; the norm reads the
  // gradient, clipping reads and writes it.
  constexpr double kBytes = 24 + 4 + 2 + 12;
  const replay::GpuType& gpu = question.cluster.gpu;
  if (!layout.offload) {
    constexpr double kOfState = 8;  // read and written
    return (own * kBytes - kOfState * missing_states(question.work, layout, held)) /
               (gpu.memory_bandwidth * gpu.efficiency.memory) +
           whole_matrices_seconds(question, layout, held,
                                  neighbours(ranks, data_group(question, layout)));
  }
  constexpr double kTravels = 4 + 2;
  constexpr double kHostBytes = 24 + 4 + 2;
  return own * (kTravels + kHostBytes) / question.cluster.host_bandwidth;
}

Prediction predict(const Question& question, const Layout& layout, PipelineTime time) {
  const std::vector<std::size_t> blocks =
      blocks_of_stages(question.work.model, layout, question.software);
  const std::vector<StageWork> works = stage_works(question, layout, blocks);
  const StageParameters held = largest_parameters(question, layout, blocks);
  StepParts parts{.schedule = layout.schedule,
                  .micro_batches = micro_batches_of(question.work, layout),
                  .message = layout.pp > 1 ? stage_message(question, layout) : 0,
                  .hides_messages = question.software.overlaps_pipeline,
                  .data = data_exchange(question, layout, held),
                  .hides_data = hides_data(question, layout),
                  .optimizer = optimizer_seconds(question, layout, held),
                  .slowdown = replay::straggler_slowdown(question.cluster, layout.gpus())};
  for (const StageWork& work : works) parts.stages.push_back(work.seconds);
  const double waited_for = take_what_never_hides(parts, question, layout);
  StepSeconds step = with_exchanges(step_seconds(parts), parts, question, layout);
  step.data += waited_for;
  if (layout.pp > 1 && time == PipelineTime::kSimulated) {
    step = with_simulated_pipeline(step, parts, blocks, question, layout);
  }
  step.stragglers = 0;
  step.stragglers = (parts.slowdown - 1) * step.total();

  const StageWork& slowest = *std::ranges::max_element(
      works, {}, [](const StageWork& work) { return work.seconds.together(); });
  Prediction result{.layout = layout,
                    .micro_batches = parts.micro_batches,
                    .memory = largest_stage(question, layout),
                    .step = step};
  result.passes.add(slowest.passes, real(parts.micro_batches));
  result.recompute = real(parts.micro_batches) * slowest.recompute;
  result.tokens_per_second = question.work.tokens() / result.step.total();
  result.flops_per_gpu = result.tokens_per_second / real(layout.gpus()) *
                         model_flop_per_token(question.work.model, question.work.seq_len);
  result.mfu =
      result.flops_per_gpu /
      replay::peak_flops(question.cluster.gpu, memory::activation_element_bytes(layout.precision));
  return result;
}

}  // namespace ultra::planner
