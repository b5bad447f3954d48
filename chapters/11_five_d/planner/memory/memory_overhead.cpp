#include <algorithm>

#include "chapters/07_pipeline_parallel/closed_forms/schedule_volume.hpp"
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

double fragmented_bytes(const Software& software, const Layout& layout, const StageMemory& memory) {
  return software.expandable_segments && layout.pp == 1 ? 0 : fragmented_bytes(memory);
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

/// Of a block's weights, gathered.
/// Source: torchtitan/float8.py: enable_fsdp_float8_all_gather, only with dp_shard_enabled.
double gathered_bytes(const Question& question, const Layout& layout, double weights) {
  const Software& software = question.software;
  const bool fp8 = software.weights_are_masters && software.fp8_products && layout.dp > 1;
  return (fp8 ? 1 : element_bytes(layout)) * weights;
}

double weights_of_block(const StageParameters& held, std::size_t blocks) {
  return (held.matrices + held.experts) / real(std::max<std::size_t>(1, blocks));
}

/// Where weights are the masters, a shard is no second copy of them, but of what has no master;
/// gathered tables stay. Gathers have a pool of their own, where the tables lie beside a first block,
/// or a block beside the next.
/// Source: PyTorch, torch/distributed/fsdp/_fully_shard: foreach_all_gather's copy-in stream,
/// all_gather_state, unsharded_accumulated_grad, and the stream that allocates reduce_output.
StageMemory with_masters_as_weights(const Question& question, const Layout& layout,
                                    const std::vector<std::size_t>& blocks, std::size_t stage,
                                    StageMemory memory) {
  if (!question.software.weights_are_masters || !zero::shards_optimizer(layout.zero) ||
      layout.shard_ranks() == 1) {
    return memory;
  }
  const double tables = ((stage == 0 ? 1 : 0) + (stage == output_stage(layout) ? 1 : 0)) *
                        element_bytes(layout) *
                        real(RankBlocks(question.work.model, layout).table_weights());
  const StageParameters held = stage_parameters(question.work.model, layout, blocks, stage);
  const double block = gathered_bytes(question, layout, weights_of_block(held, blocks[stage]));
  memory.parameters = state_bytes(layout.precision) * held.frozen / holders(layout, true);
  memory.transient += tables + std::max(tables + block, 2 * block);
  if (zero::shards_parameters(layout.zero)) return memory;
  memory.transient += real(blocks[stage]) * block;
  if (zero::shards_gradients(layout.zero)) return memory;
  memory.transient +=
      memory.gradients + element_bytes(layout) * weights_of_block(held, blocks[stage]);
  memory.gradients /= holders(layout, true);
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

/// Of a block's activations while its backward pass runs: of what it puts out and takes in, and of what
/// its feed-forward network has inside; and once more what tp is to add up, put in order.
/// Source: PyTorch, torch/distributed/_functional_collectives.py: reduce_scatter_tensor.
double activation_gradients(const Question& question, const Layout& layout) {
  const Workload& work = question.work;
  const memory::TransformerShape& s = work.model.shape();
  const expert_parallel::MoeConfig& moe = work.model.layers.moe;
  const double rows = work.model.has_experts() ? real(moe.top_k) : 1;
  const double width = real(work.model.has_experts() ? moe.expert_ffn : s.ffn_hidden_size);
  const double inside = (s.kind == memory::BlockKind::kGpt ? 2 : 3) * width;
  const double outside = question.software.orders_apart && layout.tp > 1 ? 3 : 2;
  return element_bytes(layout) * tokens_of(work, layout) *
         (outside * real(s.hidden_size) + rows * inside / real(layout.tp));
}

/// Source: torchtitan/models/llama/model.py: repeat_kv; PyTorch,
/// torch/distributed/tensor/experimental/_attention.py: _AllGatherRotater.
double gathered_keys(const Question& question, const Layout& layout) {
  if (!question.software.repeats_keys || layout.cp == 1) return 0;
  return 2 * real(layout.cp) * element_bytes(layout) * tokens_of(question.work, layout) *
         real(question.work.model.shape().hidden_size) / real(layout.tp);
}

/// Of a weight's gradient while it is whole, where its shard stays.
double leaving_bytes(const Question& question, const Layout& layout) {
  if (!zero::shards_gradients(layout.zero) || layout.shard_ranks() == 1) return 0;
  return layout.precision == memory::NumberFormats::kBf16MixedFp32Grads
             ? question.software.exchanged_gradient_bytes
             : real(memory::bytes_per_parameter(layout.precision).gradients);
}

/// What a stage has for a moment, at the worst of three. In the loss and at the output table: the table
/// and the last block, gathered, and the input table's gradient of the micro-batch before, on its way to
/// its shards; when the loss's copies of logits are gone, the output table's, too. In a block, when the
/// logits are gone: the block computed again, weights gathered, gradients of its activations and weights.
StageMemory at_the_worst_moment(const Question& question, const Layout& layout,
                                const std::vector<std::size_t>& blocks, std::size_t stage,
                                StageMemory memory) {
  const Workload& work = question.work;
  const double leaving = leaving_bytes(question, layout);
  const StageParameters held = stage_parameters(work.model, layout, blocks, stage);
  const double block = weights_of_block(held, blocks[stage]);
  memory.transient +=
      activation_gradients(question, layout) + leaving * block + gathered_keys(question, layout);
  if (stage != output_stage(layout)) return memory;
  const TableBytes tables = table_bytes(work, layout, question.software);
  const double table = real(RankBlocks(work.model, layout).table_weights());
  const bool follows = stage == 0 && micro_batches_of(work, layout) > 1;
  double outside = follows ? leaving * table : 0;
  if (zero::shards_parameters(layout.zero)) {
    outside += gathered_bytes(question, layout, block) +
               (question.software.weights_are_masters ? 0 : element_bytes(layout) * table);
  }
  memory.transient = std::max(outside + std::max(0.0, leaving * table - tables.loss),
                              memory.transient - tables.head);
  return memory;
}

/// Of each micro-batch a chunk has what it receives, what it puts out and, behind its backward pass,
/// its input's gradient; inputs under way are the first block's, and are counted there.
/// Source: PyTorch, torch/distributed/pipelining/stage.py: args_recv_info, grad_recv_info,
/// output_chunks, clear_runtime_states.
StageMemory with_stage_buffers(const Question& question, const Layout& layout, std::size_t stage,
                               StageMemory memory) {
  if (!question.software.receives_apart || layout.pp == 1) return memory;
  const Workload& work = question.work;
  const std::size_t micro_batches = micro_batches_of(work, layout);
  const double under_way =
      real(pipeline_parallel::peak_activations_of(
          layout.schedule, {.stages = layout.pp, .micro_batches = micro_batches}, stage)) /
      real(layout.schedule.chunks());
  const double first = stage == 0 ? 1 : 0;
  const double last = stage == output_stage(layout) ? 1 : 0;
  const double receiving = real(layout.schedule.chunks()) - first;
  const double sending = real(layout.schedule.chunks()) - last;
  const double messages =
      2 * (receiving + sending) * real(micro_batches) - 2 * receiving * under_way;
  memory.activations += messages * element_bytes(layout) * tokens_of(work, layout) *
                        real(work.model.shape().hidden_size) /
                        (layout.sequence_parallel ? real(layout.tp) : 1);
  return memory;
}

/// Source: PyTorch's DistributedDataParallel, whose gradients are no views of its buckets by default.
StageMemory with_buckets(const Question& question, const Layout& layout,
                         const std::vector<std::size_t>& blocks, std::size_t stage,
                         StageMemory memory) {
  if (question.software.buckets_apart && layout.zero == zero::ZeroStage::kNone &&
      layout.dp * layout.cp > 1) {
    memory.gradients += element_bytes(layout) *
                        stage_parameters(question.work.model, layout, blocks, stage).total();
  }
  return memory;
}

}  // namespace

StageMemory memory_of_stage(const Question& question, const Layout& layout,
                            const std::vector<std::size_t>& blocks, std::size_t stage) {
  StageMemory memory = with_offloaded_activations(question, layout, blocks[stage],
                                                  stage_memory(question, layout, blocks, stage));
  memory = with_states_of_rule(question, layout, blocks, stage, memory);
  memory = at_the_worst_moment(question, layout, blocks, stage, memory);
  memory = with_masters_as_weights(question, layout, blocks, stage, memory);
  memory = with_stage_buffers(question, layout, stage, memory);
  memory = with_buckets(question, layout, blocks, stage, memory);
  memory = with_all_logits(question, layout, stage, memory);
  memory = with_whole_matrices(question, layout, blocks, stage, memory);
  memory.overhead = overhead_bytes(question.software, memory, communicating_axes(layout)) +
                    fragmented_bytes(question.software, layout, memory) - fragmented_bytes(memory);
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
