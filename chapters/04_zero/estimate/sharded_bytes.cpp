#include "chapters/04_zero/estimate/sharded_bytes.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "chapters/04_zero/estimate/buffer_replay.hpp"
#include "chapters/04_zero/offload/offloaded_layout.hpp"
#include "chapters/04_zero/shards/parameter_group.hpp"
#include "common/comm/collectives/schedule.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::zero {
namespace {

/// What one group takes in buffers.
GroupBuffers buffers_of(const FlatLayout& layout, const ShardedRun& run) {
  const auto ranks = static_cast<std::size_t>(run.shards);
  const ZeroPlusPlus& how = run.settings.plus_plus;
  GroupBuffers bytes{.whole = layout.padded * size_of(run.dtype),
                     .shard = layout.shard * size_of(run.dtype)};
  if (how.weights) bytes.gathered = ranks * quantized_bytes(*how.weights, layout.shard, run.dtype);
  if (how.gradients) {
    const std::size_t message = quantized_bytes(*how.gradients, layout.shard, run.dtype);
    bytes.reduced = 2 * ranks * message;
    const std::size_t node = how.node_size.value_or(ranks);
    const std::size_t nodes = node > 1 ? ranks / node : 1;
    const std::size_t shard = layout.shard * size_of(run.dtype);
    bytes.sums = nodes * shard;
    if (nodes > 1) bytes.second_step = bytes.sums + 2 * nodes * message + shard;
  }
  return bytes;
}

memory::Embeddings embeddings_of(const ShardedRun& run) {
  return run.model.tied_embeddings ? memory::Embeddings::kTied : memory::Embeddings::kUntied;
}

/// Bytes that are on a rank for a moment.
struct Passing {
  std::size_t buffers = 0;
  std::size_t shards = 0;  ///< fetched from storage
};

Passing passing_bytes(const ShardedRun& run, const std::vector<FlatLayout>& layouts) {
  std::vector<GroupBuffers> groups;
  for (const FlatLayout& layout : layouts) groups.push_back(buffers_of(layout, run));
  BufferReplay replay(groups, run.micro_batches, run.settings, embeddings_of(run));
  if (run.settings.stage == ZeroStage::kParameters) {
    replay.run_step();
  } else if (run.settings.stage == ZeroStage::kGradients) {
    for (std::size_t m = 0; m < run.micro_batches; ++m) {
      for (std::size_t group = 0; group < groups.size(); ++group) replay.make_gradients(group);
    }
  }
  return {.buffers = replay.peak(), .shards = replay.peak_of_shards()};
}

/// The parts of gathered units that a rank keeps for the backward pass.
std::size_t secondary_bytes(const ShardedRun& run, const std::vector<FlatLayout>& layouts) {
  const ZeroPlusPlus& how = run.settings.plus_plus;
  if (how.secondary == SecondaryShards::kNone) return 0;
  const std::size_t shards = static_cast<std::size_t>(run.shards) / how.node_size.value();
  std::size_t bytes = 0;
  for (const FlatLayout& layout : layouts) {
    bytes += shards * (how.weights ? quantized_bytes(*how.weights, layout.shard, run.dtype)
                                   : layout.shard * size_of(run.dtype));
  }
  return bytes;
}

/// The flat arrays of a run, in backward order; no weights are made.
std::vector<FlatLayout> layouts_of(const ShardedRun& run) {
  nn::DenseFactory factory;
  nn::Model model(run.model, Device::cpu(), run.dtype, 0, factory, nn::StageSpec::whole(run.model),
                  nn::Values::kDeferred);
  nn::Model* const chunk = &model;
  const std::span<nn::Model* const> chunks(&chunk, 1);
  const auto groups =
      run.settings.stage == ZeroStage::kParameters
          ? groups_by_part(chunks, model.parameters(), run.shards)
          : groups_by_bucket(chunks, model.parameters(), run.settings.bucket_capacity, run.shards);
  std::vector<FlatLayout> layouts;
  for (const ParameterGroup& group : groups) layouts.push_back(group.layout);
  return layouts;
}

/// What the all-reduce of a shard over the copies needs, on the rank that needs most.
std::size_t scratch_between_copies(const ShardedRun& run,
                                   const comm::CollectiveAlgorithms& algorithms) {
  std::size_t scratch = 0;
  if (run.replicas == 1) return scratch;
  for (const FlatLayout& layout : layouts_of(run)) {
    for (int copy = 0; copy < run.replicas; ++copy) {
      const comm::Schedule schedule = algorithms.all_reduce(comm::Group::all(copy, run.replicas),
                                                            layout.shard, size_of(run.dtype));
      scratch = std::max(scratch, schedule.scratch_count);
    }
  }
  return scratch;
}

/// Bytes of a state outside the device.
std::size_t state_width(const ShardedRun& run) { return size_of(accumulation_dtype(run.dtype)); }

memory::StateWidths widths_of(const ShardedRun& run) {
  if (run.widths) return *run.widths;
  const auto width = static_cast<double>(size_of(run.dtype));
  return {.parameters = width, .gradients = width, .state = width};
}

/// Whether the optimizer keeps more than states.
bool has_master_weights(const ShardedRun& run) { return widths_of(run).masters > 0; }

/// What offloading changes.
void offload(const ShardedRun& run, const std::vector<FlatLayout>& layouts, int rank,
             std::size_t fetched_bytes, ShardedBytes& elements) {
  const OffloadSettings& settings = run.settings.offload;
  if (settings.what == Offload::kNone) return;
  std::vector<std::size_t> counts;
  for (const FlatLayout& layout : layouts) {
    for (const Piece& piece : pieces_of(layout, rank)) counts.push_back(piece.place.size());
  }
  using Weights = OffloadedLayout::Weights;
  const std::size_t states = widths_of(run).states;
  const OffloadedLayout stored(
      counts, states, settings.least_block_bytes / (states * state_width(run)),
      settings.offloads_parameters() || has_master_weights(run) ? Weights::kStored
                                                                : Weights::kStay);
  elements.optimizer = stored.window();
  elements.stored = stored.stored();
  if (settings.offloads_parameters()) elements.parameters = fetched_bytes / size_of(run.dtype);
}

/// A tied table's gradient stands as a whole from the head's backward pass to the embedding's,
/// beside the shards that are there by then.
std::size_t gradients_beside_a_table(const ShardedRun& run, const std::vector<FlatLayout>& layouts,
                                     std::size_t shards) {
  const FlatLayout& table = layouts.back();
  std::size_t there = shards;
  if (run.micro_batches == 1) {
    there -= table.shard;
    const bool one_under_way = run.settings.overlap == Overlap::kOn && layouts.size() > 1;
    if (one_under_way) there -= layouts[layouts.size() - 2].shard;
  }
  return std::max(shards, there + table.count);
}

std::size_t bytes_of(std::size_t elements, double width) {
  return static_cast<std::size_t>(std::llround(static_cast<double>(elements) * width));
}

/// States and master weights on the device: where they are offloaded, their window instead.
std::size_t optimizer_bytes(const ShardedRun& run, const memory::StateWidths& widths,
                            std::size_t updated, const ShardedBytes& elements) {
  if (run.settings.offload.what == Offload::kNone) return bytes_of(updated, widths.optimizer());
  return elements.optimizer * state_width(run);
}

/// What a rank sends of gradients in a step: reduce-scatters. The rest are all-gathers of weights.
std::size_t scattered_elements(const ShardedRun& run) {
  const std::size_t times = run.settings.stage == ZeroStage::kOptimizer ? 1 : run.micro_batches;
  std::size_t elements = 0;
  for (const FlatLayout& layout : layouts_of(run)) {
    elements += times * (layout.padded - layout.shard);
  }
  return elements;
}

}  // namespace

ShardedBytes predict_bytes(const ShardedRun& run, int rank,
                           const comm::CollectiveAlgorithms& algorithms) {
  const ZeroStage stage = run.settings.stage;
  const comm::Group group = comm::Group::all(rank, run.shards);
  const std::vector<FlatLayout> layouts = layouts_of(run);
  ShardedBytes elements;
  std::size_t updated = 0;
  for (const FlatLayout& layout : layouts) {
    elements.parameters += shards_parameters(stage) ? layout.shard : layout.padded;
    elements.gradients += shards_gradients(stage) ? layout.shard : layout.padded;
    for (const Piece& piece : pieces_of(layout, rank)) updated += piece.place.size();
    if (run.settings.plus_plus.gradients) continue;  // an all-to-all needs no scratch memory
    const comm::Schedule schedule =
        algorithms.reduce_scatter(group, comm::Chunks::even({0, layout.padded}, run.shards));
    elements.scratch = std::max(elements.scratch, schedule.scratch_count);
  }
  if (run.model.tied_embeddings && shards_gradients(stage)) {
    elements.gradients = gradients_beside_a_table(run, layouts, elements.gradients);
  }
  if (stage == ZeroStage::kOptimizer) elements.scratch += scratch_between_copies(run, algorithms);
  const Passing passing = passing_bytes(run, layouts);
  offload(run, layouts, rank, passing.shards, elements);
  const std::size_t width = size_of(run.dtype);
  const memory::StateWidths widths = widths_of(run);
  const std::size_t secondary = secondary_bytes(run, layouts);
  return {.parameters = bytes_of(elements.parameters, widths.parameters) + secondary,
          .gradients = bytes_of(elements.gradients, widths.gradients),
          .optimizer = optimizer_bytes(run, widths, updated, elements),
          .buffers = passing.buffers,
          .secondary = secondary,
          .scratch = elements.scratch * width,
          .stored = elements.stored * state_width(run)};
}

std::size_t predict_sent_elements(const ShardedRun& run) {
  const std::size_t m = run.micro_batches;
  const bool gathered_twice = run.settings.stage == ZeroStage::kParameters &&
                              run.settings.reshard == Reshard::kAfterForward;
  std::size_t times = 2;  // one reduce-scatter, one all-gather
  if (run.settings.stage == ZeroStage::kGradients) times = m + 1;
  if (run.settings.stage == ZeroStage::kParameters) times = (gathered_twice ? 3 : 2) * m;
  const std::vector<FlatLayout> layouts = layouts_of(run);
  std::size_t elements = 0;
  for (const FlatLayout& layout : layouts) elements += times * (layout.padded - layout.shard);
  const auto sent = [](const FlatLayout& layout) { return layout.padded - layout.shard; };
  if (!gathered_twice) return elements;
  if (run.model.tied_embeddings) return elements + 2 * m * sent(layouts.back());
  // The head stays at the forward-backward boundary.
  return elements - m * sent(layouts.front());
}

SentBytes predict_sent(const ShardedRun& run, int rank) {
  if (run.widths) {
    const std::size_t gradients = scattered_elements(run);
    const std::size_t weights = predict_sent_elements(run) - gradients;
    return {.total = bytes_of(gradients, run.widths->gradients) +
                     bytes_of(weights, run.widths->parameters),
            .between = 0};
  }
  if (run.settings.stage != ZeroStage::kParameters) {
    return {.total = predict_sent_elements(run) * size_of(run.dtype), .between = 0};
  }
  const std::vector<FlatLayout> layouts = layouts_of(run);
  const SentBytes one = sent_in_micro_batch(layouts, run.dtype, run.settings.plus_plus,
                                            {.rank = rank, .ranks = run.shards},
                                            run.settings.reshard, embeddings_of(run))
                            .total();
  return {.total = run.micro_batches * one.total, .between = run.micro_batches * one.between};
}

}  // namespace ultra::zero
