#include "chapters/11_five_d/planner/memory/rank_blocks.hpp"

#include "common/base/numeric.hpp"

namespace ultra::planner {

using memory::BlockKind;
using memory::Recompute;

RankBlocks::RankBlocks(const ModelShape& model, const Layout& layout)
    : model_(model), layout_(layout), shape_(model.shape()) {}

std::size_t RankBlocks::element() const {
  return memory::activation_element_bytes(layout_.precision);
}

std::size_t RankBlocks::tokens(std::size_t seq_len) const { return layout_.micro_batch * seq_len; }

std::size_t RankBlocks::local_tokens(std::size_t seq_len) const {
  const bool split = layout_.sequence_parallel && layout_.tp > 1;
  return layout_.micro_batch * (split ? seq_len / layout_.tp : seq_len);
}

std::size_t RankBlocks::kv_width() const {
  const std::size_t heads = shape_.num_kv_heads;
  return (heads < layout_.tp ? 1 : heads / layout_.tp) * shape_.head_dim();
}

std::size_t RankBlocks::table_weights() const {
  return ceil_div(shape_.vocab_size, layout_.tp) * shape_.hidden_size;
}

BlockWeights RankBlocks::block_weights(std::size_t dense, std::size_t with_experts) const {
  const std::size_t h = shape_.hidden_size;
  const std::size_t f = shape_.ffn_hidden_size;
  const std::size_t t = layout_.tp;
  const std::size_t blocks = dense + with_experts;
  if (shape_.kind == BlockKind::kGpt) {
    const std::size_t weights = (4 * h * h + 2 * h * f) / t;
    const std::size_t split_biases = (3 * h + f) / t;  // of query, key, value; of the first matrix
    const std::size_t whole = 2 * h + 4 * h;           // the other biases, two LayerNorms
    return {.others = blocks * (weights + split_biases + whole)};
  }
  std::size_t attention = 2 * h * h / t + 2 * h * kv_width();
  if (model_.layers.attention_parameters) {
    attention += *model_.layers.attention_parameters / t;
    attention -= 2 * h * (h + shape_.kv_hidden_size()) / t;
  }
  const auto& moe = model_.layers.moe;
  const std::size_t expert = 3 * h * moe.expert_ffn / t;
  const bool biased = moe.balance == expert_parallel::Balance::kBias;
  const std::size_t router = moe.num_experts * h + (biased ? moe.num_experts : 0);
  return {.experts = with_experts * (moe.num_experts / layout_.ep) * expert,
          .others = blocks * (attention + 2 * h) + dense * (3 * h * f / t) +
                    with_experts * (moe.shared_experts * expert + router)};
}

std::size_t RankBlocks::matrix_weights(std::size_t split, std::size_t keys) const {
  return split / layout_.tp + keys / shape_.kv_hidden_size() * kv_width();
}

std::size_t RankBlocks::gpt_bytes(std::size_t seq_len, Recompute mode) const {
  const std::size_t e = element();
  const std::size_t h = shape_.hidden_size;
  // Inputs of 2 norms and of 2 matrices, 2 dropout masks.
  const std::size_t between = local_tokens(seq_len) * (4 * e * h + 2 * h);
  // Query, key, value, attention's output; GELU's input and output.
  const std::size_t inside = tokens(seq_len) * e * (4 * h + 2 * shape_.ffn_hidden_size);
  // Softmax's output, its dropout's mask (1 byte) and output.
  const std::size_t scores = (2 * e + 1) * shape_.num_heads * seq_len * tokens(seq_len);
  return between + (inside + (mode == Recompute::kNone ? scores : 0)) / layout_.tp;
}

std::size_t RankBlocks::llama_bytes(std::size_t seq_len, std::size_t ffn, Recompute mode) const {
  const std::size_t h = shape_.hidden_size;
  const std::size_t t = layout_.tp;
  const std::size_t l = local_tokens(seq_len);
  const std::size_t kept = 2 * l * h + tokens(seq_len) * ((2 * h + 2 * ffn) / t + 2 * kv_width());
  const std::size_t row_sums = 2 * l + tokens(seq_len) * (shape_.num_heads / t);
  const std::size_t again = 2 * l * h + tokens(seq_len) * (ffn / t);  // norm outputs, product
  return element() * (kept + row_sums + (mode == Recompute::kNone ? again : 0));
}

std::size_t RankBlocks::dense_bytes(std::size_t seq_len, Recompute mode) const {
  if (mode == Recompute::kFull) return element() * local_tokens(seq_len) * shape_.hidden_size;
  return shape_.kind == BlockKind::kGpt ? gpt_bytes(seq_len, mode)
                                        : llama_bytes(seq_len, shape_.ffn_hidden_size, mode);
}

std::size_t RankBlocks::expert_bytes(std::size_t seq_len, Recompute mode) const {
  if (mode == Recompute::kFull) return dense_bytes(seq_len, mode);
  const auto& moe = model_.layers.moe;
  const std::size_t n = tokens(seq_len);
  const std::size_t t = layout_.tp;
  const std::size_t parts = mode == Recompute::kNone ? 3 : 2;  // gate, up; product
  const auto of_ffn = [&](std::size_t width) {
    return 2 * width / t + (parts == 3 ? width / t : 0);
  };
  std::size_t of_router = n * (moe.num_experts + moe.top_k);
  if (moe.balance == expert_parallel::Balance::kAux) {
    of_router += layout_.micro_batch * moe.num_experts;
  }
  if (moe.z_coefficient > 0) of_router += n * moe.num_experts;
  const std::size_t rows = moe.top_k * n * (2 * shape_.hidden_size + of_ffn(moe.expert_ffn));
  const std::size_t shared = n * of_ffn(moe.shared_experts * moe.expert_ffn);
  constexpr std::size_t kChoiceBytes = 2 * sizeof(std::int32_t);
  return llama_bytes(seq_len, 0, mode) + element() * (rows + shared + of_router) +
         kChoiceBytes * n * moe.top_k;
}

std::size_t RankBlocks::waiting_bytes(std::size_t seq_len, bool experts, Inputs inputs) const {
  const std::size_t h = shape_.hidden_size;
  const std::size_t t = layout_.tp;
  const std::size_t n = tokens(seq_len);
  const std::size_t whole = inputs == Inputs::kGathered ? n : local_tokens(seq_len);
  if (shape_.kind == BlockKind::kGpt) {
    return element() * (4 * h * whole + n * ((4 * h + 2 * shape_.ffn_hidden_size) / t));
  }
  const std::size_t ffn = experts ? 0 : shape_.ffn_hidden_size;
  const std::size_t dense = 4 * h * whole + n * ((2 * h + 3 * ffn) / t + 2 * kv_width());
  const std::size_t norms = 2 * h * std::max<std::size_t>(4, element());
  if (!experts) return element() * dense + norms;
  const auto& moe = model_.layers.moe;
  const std::size_t rows = moe.top_k * n * (2 * h + 3 * moe.expert_ffn / t);
  const std::size_t shared =
      moe.shared_experts == 0 ? 0 : h * whole + n * (3 * moe.shared_experts * moe.expert_ffn / t);
  return element() * (dense + n * moe.num_experts + rows + shared) + norms;
}

memory::OutsideBytes RankBlocks::outside_bytes(std::size_t seq_len) const {
  const std::size_t e = element();
  const std::size_t h = shape_.hidden_size;
  const std::size_t v = ceil_div(shape_.vocab_size, layout_.tp);
  const std::size_t n = tokens(seq_len);
  const std::size_t l = local_tokens(seq_len);
  if (shape_.kind == BlockKind::kGpt) {
    return {.embedding = l * h, .head = 2 * e * l * h + 4 * n * v};
  }
  return {.embedding = 4 * n, .head = e * (l * (2 * h + 1) + n * v)};
}

}  // namespace ultra::planner
