#include "chapters/07_pipeline_parallel/estimate/stage_memory.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"
#include "common/base/numeric.hpp"

namespace ultra::pipeline_parallel {
namespace {

using memory::BatchShape;
using memory::OutsideBytes;
using memory::Recompute;
using train::Action;
using train::ActionKind;

memory::TransformerShape with_layers(memory::TransformerShape shape, std::size_t layers) {
  shape.num_layers = layers;
  return shape;
}

/// Embedding and head of a part; what it has not is 0.
OutsideBytes outside_of(const StagedModel& model, const nn::StageSpec& part,
                        const BatchShape& batch) {
  OutsideBytes bytes = tensor_parallel::outside_activation_bytes(
      model.shape, batch, model.precision, model.share.tensor);
  if (!part.has_embedding) bytes.embedding = 0;
  if (!part.has_head) bytes.head = 0;
  return bytes;
}

BatchShape micro_batch(const StagedModel& model, std::size_t sequences) {
  return {.size = sequences, .seq_len = model.share.layout.local_seq_len()};
}

/// Features of an input that sequence parallelism gathers: of each token, on every rank.
std::size_t gathered_input(const StagedModel& model) {
  return model.share.tensor.splits_sequences() ? model.shape.hidden_size : 0;
}

/// Features of the same input where nothing has to be gathered.
std::size_t own_input(const StagedModel& model) {
  return model.shape.hidden_size - gathered_input(model);
}

/// What a part's embedding and head leave to wait between B and W.
struct WaitingOutside {
  std::size_t embedding = 0;
  std::size_t head = 0;
  std::size_t deferred = 0;  // beside, once B has ended
};

WaitingOutside waiting_outside(const StagedModel& model, const nn::StageSpec& part,
                               const BatchShape& batch) {
  const std::size_t e = memory::activation_element_bytes(model.precision);
  const std::size_t h = model.shape.hidden_size;
  const std::size_t tokens = batch.tokens();
  WaitingOutside bytes;
  if (part.has_embedding) {
    bytes.embedding = 4 * tokens;
    bytes.deferred += e * tokens * h;
  }
  if (part.has_head) {
    const std::size_t logits = model.share.tensor.local_vocab_size(model.shape.vocab_size);
    bytes.head = e * tokens * (own_input(model) + logits);
    bytes.deferred +=
        e * tokens * gathered_input(model) + memory::row_sum_bytes(model.precision) * h;
  }
  return bytes;
}

/// Blocks that hold so much, and are computed again in groups.
struct BlockBytes {
  std::size_t layers;
  std::size_t group;       // blocks that are computed again together; 1: none is, or each by itself
  BlockActivations block;  // kept: of a group
};

/// The highest moment of B: groups before keep their input, those behind wait for W.
std::size_t splitting_bytes(const BlockBytes& blocks, std::size_t waiting_head,
                            std::size_t embedding) {
  std::size_t peak = 0;
  for (std::size_t first = 0; first < blocks.layers; first += blocks.group) {
    const std::size_t again = std::min(blocks.group, blocks.layers - first);
    const std::size_t behind = blocks.layers - first - again;
    peak = std::max(peak, embedding + first / blocks.group * blocks.block.kept +
                              again * blocks.block.whole + blocks.block.unpacked +
                              behind * blocks.block.waiting + waiting_head);
  }
  return peak;
}

/// Follows a stage's instructions, and adds up what it holds.
class StageBytes {
 public:
  StageBytes(const StagedModel& model, const PipelineSchedule& schedule, std::size_t stage,
             std::span<const std::size_t> sequences)
      : model_(model), schedule_(schedule), stage_(stage), sequences_(sequences) {}

  std::size_t peak() {
    const InstructionLists lists = with_messages(schedule_);
    for (const Instruction& instruction : lists[stage_]) {
      if (instruction.kind == InstructionKind::kPost) hold(border(instruction.message.micro_batch));
      if (instruction.kind == InstructionKind::kPass) {
        pass(schedule_.ranks[stage_][instruction.index]);
      }
    }
    return peak_;
  }

 private:
  void pass(const Action& action) {
    const PartActivations part = of(action);
    switch (action.kind) {
      case ActionKind::kForward:
        release(arrived(action, part));  // it is the first block's input
        return hold(part.kept);
      case ActionKind::kBackward:
        run(part.passing - part.kept);
        return release(part.kept + arrived(action, part));
      case ActionKind::kBackwardInput:
        run(part.splitting - part.kept);
        release(part.kept + arrived(action, part));  // as an output's gradient it waits
        return hold(part.waiting);
      case ActionKind::kBackwardWeight:
        return release(part.waiting);
      case ActionKind::kUpdate:
        return;
    }
  }

  /// Holds more for a moment.
  void run(std::size_t more) {
    hold(more);
    release(more);
  }

  /// What has come from another rank for an action.
  [[nodiscard]] std::size_t arrived(const Action& action, const PartActivations& part) const {
    const auto message = input_of(schedule_, stage_, action);
    const bool from_afar = message && schedule_.placement.at(message->from_part()).stage != stage_;
    return from_afar ? part.border : 0;
  }

  [[nodiscard]] std::size_t border(std::size_t micro_batch) const {
    return part_activations(model_, model_.parts.front(), sequences_[micro_batch]).border;
  }

  PartActivations of(const Action& action) {
    const std::size_t part = schedule_.placement.part_at({.stage = stage_, .chunk = action.chunk});
    const std::pair<std::size_t, std::size_t> key{part, sequences_[action.micro_batch]};
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    return known_[key] = part_activations(model_, model_.parts[part], key.second);
  }

  void hold(std::size_t bytes) { peak_ = std::max(peak_, held_ += bytes); }
  void release(std::size_t bytes) { held_ -= bytes; }

  const StagedModel& model_;
  const PipelineSchedule& schedule_;
  std::size_t stage_;
  std::span<const std::size_t> sequences_;
  std::map<std::pair<std::size_t, std::size_t>, PartActivations> known_;  // by part, sequences
  std::size_t held_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace

std::size_t part_parameters(const StagedModel& model, const nn::StageSpec& part) {
  const memory::TransformerShape& shape = model.shape;
  const tensor_parallel::TensorParallelLayout& tensor = model.share.tensor;
  const std::size_t h = shape.hidden_size;
  const std::size_t table = tensor.local_vocab_size(shape.vocab_size) * h;
  const std::size_t positions = shape.num_positions * h;
  const bool tied = shape.embeddings == memory::Embeddings::kTied;
  const std::size_t ends = tensor_parallel::parameter_count(with_layers(shape, 0), tensor);
  const std::size_t final_norm = ends - (tied ? 1 : 2) * table - positions;
  std::size_t count =
      tensor_parallel::parameter_count(with_layers(shape, part.layers.size()), tensor) - ends;
  if (part.has_embedding) count += table + positions;
  if (part.has_head) count += final_norm + (tied && part.has_embedding ? 0 : table);
  return count;
}

BlockActivations block_activations(const StagedModel& model, std::size_t sequences) {
  if (model.blocks) return model.blocks(sequences);
  const memory::TransformerShape& shape = model.shape;
  const auto bytes_of = [&](Recompute mode) {
    return context_parallel::block_activation_bytes(shape, sequences, model.precision, mode,
                                                    model.share);
  };
  const tensor_parallel::TensorParallelLayout& tensor = model.share.tensor;
  const std::size_t h = shape.hidden_size;
  const std::size_t f = shape.ffn_hidden_size / tensor.ranks();
  const std::size_t heads = h / tensor.ranks();
  const std::size_t kv = tensor.local_kv_heads(shape.num_kv_heads) * shape.head_dim();
  const std::size_t into_ffn = shape.kind == memory::BlockKind::kLlama ? 2 * f : f;
  const std::size_t of_element =
      memory::activation_element_bytes(model.precision) * micro_batch(model, sequences).tokens();
  return {.kept = bytes_of(model.recompute.mode),
          .whole = bytes_of(Recompute::kNone),
          .unpacked = context_parallel::unpacked_bytes(shape, sequences, model.precision,
                                                       model.recompute.mode, model.share),
          .waiting = of_element * (2 * own_input(model) + heads + f),
          .deferred = of_element * (2 * gathered_input(model) + 2 * h + heads + 2 * kv + into_ffn) +
                      memory::row_sum_bytes(model.precision) * 2 * h};
}

PartActivations part_activations(const StagedModel& model, const nn::StageSpec& part,
                                 std::size_t sequences) {
  const BatchShape batch = micro_batch(model, sequences);
  const OutsideBytes outside = outside_of(model, part, batch);
  const WaitingOutside waiting = waiting_outside(model, part, batch);
  const std::size_t layers = part.layers.size();
  const BlockActivations block = block_activations(model, sequences);
  const BlockBytes blocks{
      .layers = layers,
      .group = model.recompute.mode == Recompute::kFull ? model.recompute.recompute_every : 1,
      .block = block};
  const std::size_t kept =
      ceil_div(layers, blocks.group) * block.kept + outside.embedding + outside.head;
  const std::size_t passing = tensor_parallel::peak_of_blocks(layers, model.recompute, block.kept,
                                                              block.whole, outside, block.unpacked);
  return {.kept = kept,
          .passing = std::max(kept, passing),
          .splitting = std::max(kept, splitting_bytes(blocks, waiting.head, outside.embedding)),
          .waiting = layers * (block.waiting + block.deferred) + waiting.embedding + waiting.head +
                     waiting.deferred,
          .border = memory::activation_element_bytes(model.precision) * sequences *
                    model.share.tensor.local_seq_len(batch.seq_len) * model.shape.hidden_size};
}

std::size_t peak_activation_bytes(const StagedModel& model, const PipelineSchedule& schedule,
                                  std::size_t stage, std::span<const std::size_t> sequences) {
  return StageBytes(model, schedule, stage, sequences).peak();
}

}  // namespace ultra::pipeline_parallel
