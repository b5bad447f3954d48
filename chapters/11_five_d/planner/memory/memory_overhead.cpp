#include <algorithm>

#include "chapters/11_five_d/planner/layout_memory.hpp"
#include "chapters/11_five_d/planner/memory/rank_blocks.hpp"
#include "common/base/numeric.hpp"

namespace ultra::planner {
namespace {

double element_bytes(const Layout& layout) {
  return real(memory::activation_element_bytes(layout.precision));
}

/// Of a micro-batch, on a rank.
double tokens_of(const Workload& work, const Layout& layout) {
  return real(layout.micro_batch * (work.seq_len / layout.cp));
}

}  // namespace

double overhead_bytes(const Software& software, const StageMemory& memory, int groups) {
  if (!software.on_gpus) return 0;
  constexpr double kContext = 0.8e9;   // CUDA context, kernels, cuBLAS workspace
  constexpr double kPerGroup = 0.4e9;  // NCCL's buffers and channels
  return kContext + kPerGroup * groups + fragmented_bytes(memory);
}

double fragmented_bytes(const StageMemory& memory) {
  constexpr double kFragmented = 0.05;
  return kFragmented * (memory.activations + memory.transient);
}

int communicating_axes(const Layout& layout) {
  int axes = 0;
  for (const std::size_t size : {layout.dp, layout.pp, layout.cp, layout.tp, layout.ep}) {
    if (size > 1) ++axes;
  }
  return axes;
}

namespace {

/// Of offloaded activations two blocks' are in the GPU: one on its way, and one in use.
StageMemory with_offloaded_activations(const Question& question, const Layout& layout,
                                       std::size_t blocks, StageMemory memory) {
  if (!layout.offload_activations) return memory;
  const double of_block = kept_bytes(question.work, layout, question.software, layout.recompute,
                                     question.work.model.has_experts());
  const double held = real(std::min<std::size_t>(blocks, 2)) * of_block;
  memory.activations = std::min(memory.activations, held);
  return memory;
}

/// Ranks that share a state, where ZeRO's stage cuts it.
double holders(const Layout& layout, bool shards) {
  return shards ? real(layout.shard_ranks()) : 1;
}

/// Where weights are the masters, a shard is no second copy of them, but of what has no master;
/// gathered tables stay.
StageMemory with_masters_as_weights(const Question& question, const Layout& layout,
                                    const std::vector<std::size_t>& blocks, std::size_t stage,
                                    StageMemory memory) {
  if (!question.software.weights_are_masters || !zero::shards_parameters(layout.zero))
    return memory;
  const double tables = (stage == 0 ? 1 : 0) + (stage == output_stage(layout) ? 1 : 0);
  const double frozen = stage_parameters(question.work.model, layout, blocks, stage).frozen;
  memory.parameters = state_bytes(layout.precision) * frozen / holders(layout, true);
  memory.transient += tables * element_bytes(layout) *
                      real(RankBlocks(question.work.model, layout).table_weights());
  return memory;
}

/// Of the micro-batches whose passes are over.
StageMemory with_all_logits(const Question& question, const Layout& layout, std::size_t stage,
                            StageMemory memory) {
  if (!question.software.keeps_all_logits || layout.pp == 1 || stage != output_stage(layout)) {
    return memory;
  }
  const double others = real(micro_batches_of(question.work, layout) - 1);
  memory.activations += others * tokens_of(question.work, layout) *
                        real(question.work.model.shape().vocab_size) / real(layout.tp) *
                        element_bytes(layout);
  return memory;
}

/// With as many states of each weight as its rule keeps, where stage_memory() has AdamW's two; and
/// neither states nor gradients of frozen ones.
StageMemory with_states_of_rule(const Question& question, const Layout& layout,
                                const std::vector<std::size_t>& blocks, std::size_t stage,
                                StageMemory memory) {
  const StageParameters held = stage_parameters(question.work.model, layout, blocks, stage);
  memory.gradients -= question.software.kept_gradient_bytes(layout.precision) * held.frozen /
                      holders(layout, zero::shards_gradients(layout.zero));
  if (layout.offload) return memory;
  memory.optimizer -= state_bytes(layout.precision) * missing_states(question.work, layout, held) +
                      real(memory::bytes_per_parameter(layout.precision).optimizer) * held.frozen /
                          holders(layout, zero::shards_optimizer(layout.zero));
  return memory;
}

/// While a rule takes its steps with whole matrices, no activation is there: steps along the momentum of
/// the rank's parts, and of each exchange, over the ranks of ZeRO and those of tp, what is sent, what is
/// received, and the matrices, all of them at once.
StageMemory with_whole_matrices(const Question& question, const Layout& layout,
                                const std::vector<std::size_t>& blocks, std::size_t stage,
                                StageMemory memory) {
  if (!optim::needs_whole_matrices(question.work.optimizer)) return memory;
  const StageParameters held = stage_parameters(question.work.model, layout, blocks, stage);
  const double ranks = holders(layout, zero::shards_optimizer(layout.zero));
  const double own = (held.trained_matrices() + held.experts) / ranks;
  const bool two = ranks > 1 && layout.tp > 1;
  const double copies = two ? 5 : ranks > 1 || layout.tp > 1 ? 4 : 0;
  const double bytes = copies * state_bytes(layout.precision) * own;
  memory.transient += std::max(0.0, bytes - memory.activations - memory.transient);
  return memory;
}

/// Gradients of activations while a block's backward pass runs: of what it puts out and takes in, and
/// of what its feed-forward network has inside. By then the last stage's logits are gone.
StageMemory with_block_gradients(const Question& question, const Layout& layout, std::size_t stage,
                                 StageMemory memory) {
  const Workload& work = question.work;
  const memory::TransformerShape& s = work.model.shape();
  const expert_parallel::MoeConfig& moe = work.model.layers.moe;
  const double rows = work.model.has_experts() ? real(moe.top_k) : 1;
  const double width = real(work.model.has_experts() ? moe.expert_ffn : s.ffn_hidden_size);
  const double inside = (s.kind == memory::BlockKind::kGpt ? 2 : 3) * width;
  const double bytes = element_bytes(layout) * tokens_of(work, layout) *
                       (2 * real(s.hidden_size) + rows * inside / real(layout.tp));
  const double gone =
      stage == output_stage(layout) ? table_bytes(work, layout, question.software).head : 0;
  memory.transient += std::max(0.0, bytes - gone);
  return memory;
}

}  // namespace

StageMemory memory_of_stage(const Question& question, const Layout& layout,
                            const std::vector<std::size_t>& blocks, std::size_t stage) {
  StageMemory memory = with_offloaded_activations(question, layout, blocks[stage],
                                                  stage_memory(question, layout, blocks, stage));
  memory = with_states_of_rule(question, layout, blocks, stage, memory);
  memory = with_masters_as_weights(question, layout, blocks, stage, memory);
  memory = with_block_gradients(question, layout, stage, memory);
  memory = with_all_logits(question, layout, stage, memory);
  memory = with_whole_matrices(question, layout, blocks, stage, memory);
  memory.overhead = overhead_bytes(question.software, memory, communicating_axes(layout));
  return memory;
}

StageMemory largest_stage(const Question& question, const Layout& layout) {
  const std::vector<std::size_t> blocks =
      blocks_of_stages(question.work.model, layout, question.software);
  StageMemory largest;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const StageMemory memory = memory_of_stage(question, layout, blocks, stage);
    if (memory.total() > largest.total()) largest = memory;
  }
  return largest;
}

}  // namespace ultra::planner
