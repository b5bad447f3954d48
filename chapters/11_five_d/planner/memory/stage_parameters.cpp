#include "chapters/11_five_d/planner/memory/stage_parameters.hpp"

#include <algorithm>
#include <numeric>

#include "chapters/11_five_d/planner/memory/rank_blocks.hpp"
#include "common/base/numeric.hpp"

namespace ultra::planner {
std::size_t expert_blocks(const ModelShape& model, const std::vector<std::size_t>& blocks,
                          std::size_t stage) {
  if (!model.has_experts()) return 0;
  const auto before = static_cast<std::size_t>(std::accumulate(
      blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(stage), std::size_t{0}));
  const std::size_t first = std::max(before, model.layers.dense_blocks);
  const std::size_t end = before + blocks[stage];
  return end > first ? end - first : 0;
}

double missing_states(const Workload& work, const Layout& layout, const StageParameters& held) {
  const auto of = [&](optim::WeightKind kind) {
    return 2 - real(optim::states_per_weight(work.optimizer, kind));
  };
  const std::size_t ranks = zero::shards_optimizer(layout.zero) ? layout.shard_ranks() : 1;
  const double matrices = held.trained_matrices() / real(ranks) +
                          held.experts / real(std::max<std::size_t>(1, ranks / layout.ep));
  return of(optim::WeightKind::kMatrix) * matrices +
         of(optim::WeightKind::kOther) * (held.trained() - held.trained_matrices()) / real(ranks);
}

namespace {

/// Of a stage's blocks and tables, what is frozen.
void add_frozen(StageParameters& held, const ModelShape& model, const RankBlocks& rank,
                const std::vector<std::size_t>& blocks, std::size_t stage, bool first, bool last) {
  const FrozenWeights& frozen = model.frozen;
  if (frozen.blocks.empty()) return;
  const auto begin = std::accumulate(
      blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(stage), std::size_t{0});
  for (std::size_t layer = begin; layer < begin + blocks[stage]; ++layer) {
    const FrozenBlock& block = frozen.blocks.at(layer);
    const double matrices = real(rank.matrix_weights(block.split, block.key_weights));
    held.frozen_matrices += matrices;
    held.frozen += matrices + real(block.norms);
  }
  const double table = real(rank.table_weights());
  const bool shared = first && last && model.shape().embeddings == memory::Embeddings::kTied;
  if (first && frozen.input_table) held.frozen += table;
  if (last && frozen.final_norm) held.frozen += real(model.shape().hidden_size);
  if (last && frozen.output_table && !shared) held.frozen += table;
}

}  // namespace

double state_bytes(memory::NumberFormats precision) {
  return precision == memory::NumberFormats::kFp64 ? 8 : 4;
}

std::size_t output_stage(const Layout& layout) {
  return layout.schedule.is_v_shaped() ? 0 : layout.pp - 1;
}

StageParameters stage_parameters(const ModelShape& model, const Layout& layout,
                                 const std::vector<std::size_t>& blocks, std::size_t stage) {
  const std::size_t with_experts = expert_blocks(model, blocks, stage);
  const RankBlocks rank(model, layout);
  const BlockWeights weights = rank.block_weights(blocks[stage] - with_experts, with_experts);
  StageParameters result{.experts = real(weights.experts), .others = real(weights.others)};
  const memory::TransformerShape& s = model.shape();
  const double h = real(s.hidden_size);
  const bool is_gpt = s.kind == memory::BlockKind::kGpt;
  const double biases = is_gpt ? real((3 * s.hidden_size + s.ffn_hidden_size) / layout.tp) : 0;
  result.matrices = result.others - real(blocks[stage]) * (biases + (is_gpt ? 6 : 2) * h);
  const double table = real(rank.table_weights());
  const bool first = stage == 0;
  const bool last = stage == output_stage(layout);
  const bool shared = first && last && s.embeddings == memory::Embeddings::kTied;
  if (first) result.others += table + real(s.num_positions) * h;
  if (last) result.others += h * (is_gpt ? 2 : 1);
  if (last && !shared) result.others += table;
  add_frozen(result, model, rank, blocks, stage, first, last);
  return result;
}

namespace {

bool splits_backward(const pipeline_parallel::ScheduleChoice& schedule) {
  using pipeline_parallel::ScheduleKind;
  switch (schedule.kind) {
    case ScheduleKind::kZeroBubbleH1:
    case ScheduleKind::kZeroBubbleH2:
    case ScheduleKind::kZbV:
    case ScheduleKind::kDualPipeV:
      return true;
    default:
      return false;
  }
}

/// Of a block that waits for W; 0 where none does.
double waiting_bytes(const Workload& work, const Layout& layout, const Software& software,
                     bool experts) {
  if (layout.pp == 1 || !splits_backward(layout.schedule)) return 0;
  return real(RankBlocks(work.model, layout)
                  .waiting_bytes(work.seq_len / layout.cp, experts,
                                 software.keeps_gathered ? Inputs::kGathered : Inputs::kSplit));
}

/// What is kept of a block of which every second product is computed again: its input, queries, values,
/// the gate, what attention puts out, and what tp adds up behind it. A compiled block drops what its
/// backward pass does not read: the last product's output, before and after tp adds it up.
/// Source: torchtitan/parallelisms/parallelize_llama.py: _save_list; PyTorch, torch/utils/checkpoint.py
/// and torch/_functorch/partitioners.py.
double half_products_bytes(const memory::TransformerShape& s, const Layout& layout,
                           const Software& software, std::size_t seq_len) {
  const double n = real(layout.micro_batch * seq_len);
  const double h = real(s.hidden_size);
  const double t = real(layout.tp);
  const double between = layout.sequence_parallel ? n / t : n;
  const double inside = n * (2 * h + real(s.kv_hidden_size() + s.ffn_hidden_size)) / t;
  const double added_up = layout.tp > 1 ? between * h : 0;
  const double unread = software.fused_elementwise ? 0 : n * h + added_up;
  return real(memory::activation_element_bytes(layout.precision)) *
         (between * h + inside + added_up + unread);
}

}  // namespace

double kept_bytes(const Workload& work, const Layout& layout, const Software& software,
                  memory::Recompute mode, bool experts) {
  const memory::TransformerShape& s = work.model.shape();
  const RankBlocks rank(work.model, layout);
  const std::size_t seq_len = work.seq_len / layout.cp;
  if (experts) {
    return (software.fp8_products ? 0.5 : 1) *
           std::max(real(rank.expert_bytes(seq_len, mode)),
                    waiting_bytes(work, layout, software, true));
  }
  const bool no_scores = s.kind == memory::BlockKind::kGpt && mode == memory::Recompute::kNone &&
                         software.attention == AttentionKernel::kFlash;
  double bytes = real(rank.dense_bytes(seq_len, no_scores ? memory::Recompute::kSelective : mode));
  if (mode == memory::Recompute::kSelective && software.keeps_half_products &&
      s.kind != memory::BlockKind::kGpt) {
    return std::max(half_products_bytes(s, layout, software, seq_len),
                    waiting_bytes(work, layout, software, false));
  }
  const bool splits = layout.sequence_parallel && layout.tp > 1;
  if (splits && software.keeps_inputs_gathered && mode != memory::Recompute::kFull) {
    constexpr double kInputs = 2;  // of attention, of the feed-forward network
    const double n = real(layout.micro_batch * seq_len);
    bytes += kInputs * real(memory::activation_element_bytes(layout.precision)) *
             real(s.hidden_size) * (n - n / real(layout.tp));
  }
  if (mode == memory::Recompute::kNone && !software.fused_elementwise) {
    // SwiGLU's activation, and queries and keys once more behind their rotation.
    const double between = real(s.ffn_hidden_size + s.hidden_size + s.kv_hidden_size());
    bytes +=
        real(memory::activation_element_bytes(layout.precision) * layout.micro_batch * seq_len) *
        between / real(layout.tp);
  }
  return std::max(bytes, waiting_bytes(work, layout, software, false));
}

TableBytes table_bytes(const Workload& work, const Layout& layout, const Software& software) {
  const std::size_t seq_len = work.seq_len / layout.cp;
  const memory::OutsideBytes outside = RankBlocks(work.model, layout).outside_bytes(seq_len);
  TableBytes bytes{.embedding = real(outside.embedding), .head = real(outside.head)};
  const double tokens = real(layout.micro_batch * seq_len);
  const double tp = real(layout.tp);
  const double element = real(memory::activation_element_bytes(layout.precision));
  if (element < 4) {  // in f32 the loss copies nothing
    bytes.loss = (software.loss_bytes + (layout.tp > 1 ? software.split_loss_bytes : 0)) * tokens *
                 real(work.model.shape().vocab_size) / tp;
  }
  bytes.head += bytes.loss;
  if (layout.sequence_parallel && software.keeps_inputs_gathered) {
    bytes.head += element * real(work.model.shape().hidden_size) * (tokens - tokens / tp);
  }
  const double h = real(work.model.shape().hidden_size);
  const double local = layout.sequence_parallel ? tokens / tp : tokens;
  if (software.last_norm_in_fp32 && element < 4) bytes.head += 4 * h * local;
  if (software.orders_apart && layout.tp > 1) bytes.head += element * h * tokens;
  return bytes;
}

}  // namespace ultra::planner
