#include "chapters/11_five_d/planner/memory/stage_parameters.hpp"

#include <algorithm>
#include <numeric>

#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"
#include "chapters/08_expert_parallel/estimate/moe_memory.hpp"

namespace ultra::planner {
namespace {

double real(std::size_t value) { return static_cast<double>(value); }

tensor_parallel::TensorParallelLayout tensor_layout(const Layout& layout) {
  return {.tp = static_cast<int>(layout.tp),
          .sequence_parallel = layout.sequence_parallel && layout.tp > 1
                                   ? tensor_parallel::SequenceParallel::kOn
                                   : tensor_parallel::SequenceParallel::kOff};
}

expert_parallel::LocalMoe rank_share(const Layout& layout, std::size_t seq_len) {
  return {.share = {.layout = {.seq_len = seq_len / layout.cp},
                    .choice = {},
                    .tensor = tensor_layout(layout)},
          .ep = layout.ep};
}

/// Tokens of a sequence on a rank.
memory::BatchShape micro_batch(const Workload& work, const Layout& layout) {
  return {.size = layout.micro_batch, .seq_len = work.seq_len / layout.cp};
}

/// Parameters of so many blocks, and no table.
StageParameters block_parameters(const ModelShape& model, const Layout& layout, std::size_t dense,
                                 std::size_t with_experts) {
  expert_parallel::MoeModel part = model.layers;
  part.shape.num_layers = dense + with_experts;
  part.shape.num_positions = 0;
  part.dense_blocks = dense;
  const auto tensor = tensor_layout(layout);
  const double tables =
      real(tensor.local_vocab_size(part.shape.vocab_size) * part.shape.hidden_size) *
      (part.shape.embeddings == memory::Embeddings::kTied ? 1 : 2);
  const double norm =
      real(part.shape.hidden_size) * (part.shape.kind == memory::BlockKind::kGpt ? 2 : 1);
  if (!model.has_experts()) {
    return {.others = real(tensor_parallel::parameter_count(part.shape, tensor)) - tables - norm};
  }
  const expert_parallel::RankParameters counts =
      expert_parallel::rank_parameters(part, rank_share(layout, 1));
  return {.experts = real(counts.experts), .others = real(counts.others) - tables - norm};
}

}  // namespace

std::size_t expert_blocks(const ModelShape& model, const std::vector<std::size_t>& blocks,
                          std::size_t stage) {
  if (!model.has_experts()) return 0;
  const auto before = static_cast<std::size_t>(std::accumulate(
      blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(stage), std::size_t{0}));
  const std::size_t first = std::max(before, model.layers.dense_blocks);
  const std::size_t end = before + blocks[stage];
  return end > first ? end - first : 0;
}

std::size_t output_stage(const Layout& layout) {
  return layout.schedule.is_v_shaped() ? 0 : layout.pp - 1;
}

StageParameters stage_parameters(const ModelShape& model, const Layout& layout,
                                 const std::vector<std::size_t>& blocks, std::size_t stage) {
  const std::size_t with_experts = expert_blocks(model, blocks, stage);
  StageParameters result =
      block_parameters(model, layout, blocks[stage] - with_experts, with_experts);
  const memory::TransformerShape& s = model.shape();
  const double h = real(s.hidden_size);
  const double table = real(tensor_layout(layout).local_vocab_size(s.vocab_size)) * h;
  const bool first = stage == 0;
  const bool last = stage == output_stage(layout);
  const bool shared = first && last && s.embeddings == memory::Embeddings::kTied;
  if (first) result.others += table + real(s.num_positions) * h;
  if (last) result.others += h * (s.kind == memory::BlockKind::kGpt ? 2 : 1);
  if (last && !shared) result.others += table;
  return result;
}

double kept_bytes(const Workload& work, const Layout& layout, const Software& software,
                  memory::Recompute mode, bool experts) {
  const memory::TransformerShape& s = work.model.shape();
  if (experts) {
    const expert_parallel::LocalMoe rank = rank_share(layout, work.seq_len);
    const double in_fp8 = software.fp8_products ? 0.5 : 1;
    return in_fp8 *
           real(expert_parallel::moe_block_bytes(
               work.model.layers, layout.micro_batch, layout.precision, mode, rank,
               expert_parallel::even_rows(work.model.layers.moe, rank, layout.micro_batch)));
  }
  const bool no_scores = s.kind == memory::BlockKind::kGpt && mode == memory::Recompute::kNone &&
                         software.attention == AttentionKernel::kFlash;
  double bytes = real(tensor_parallel::block_activation_bytes(
      s, micro_batch(work, layout), layout.precision,
      no_scores ? memory::Recompute::kSelective : mode, tensor_layout(layout)));
  if (mode == memory::Recompute::kNone && !software.fused_elementwise) {
    // SwiGLU's activation, and queries and keys once more behind their rotation.
    const double between = real(s.ffn_hidden_size + s.hidden_size + s.kv_hidden_size());
    bytes += real(memory::activation_element_bytes(layout.precision) *
                  micro_batch(work, layout).tokens()) *
             between / real(layout.tp);
  }
  return bytes;
}

TableBytes table_bytes(const Workload& work, const Layout& layout, const Software& software) {
  const memory::OutsideBytes outside = tensor_parallel::outside_activation_bytes(
      work.model.shape(), micro_batch(work, layout), layout.precision, tensor_layout(layout));
  TableBytes bytes{.embedding = real(outside.embedding), .head = real(outside.head)};
  if (!software.fused_elementwise) {
    constexpr double kTwiceFp32 = 8;
    bytes.head += kTwiceFp32 * real(micro_batch(work, layout).tokens()) *
                  real(work.model.shape().vocab_size) / real(layout.tp);
  }
  return bytes;
}

}  // namespace ultra::planner
