#include "chapters/08_expert_parallel/estimate/moe_memory.hpp"

#include <algorithm>

#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"
#include "chapters/08_expert_parallel/moe/capacity.hpp"

namespace ultra::expert_parallel {
namespace {

/// The shape without feed-forward parts, whose closed forms are known.
memory::TransformerShape without_ffn(memory::TransformerShape shape) {
  shape.ffn_hidden_size = 0;
  return shape;
}

/// Places of all experts of a rank, for the tokens of all ranks of ep.
std::size_t places_of_rank(const MoeConfig& moe, const LocalMoe& rank, std::size_t sequences) {
  const std::size_t held = moe.num_experts / rank.ep;
  const double factor = *moe.capacity_factor;
  if (moe.capacity_group == CapacityGroup::kMicroBatch) {
    return held * rank.ep * capacity_of(factor, rank.tokens(sequences), moe);
  }
  // Ranks of cp share sequences: all their tokens together are counted once, and never too few.
  return held * rank.ep * sequences *
         std::min(capacity_of(factor, rank.share.layout.seq_len, moe),
                  rank.share.layout.local_seq_len());
}

}  // namespace

ExpertRows even_rows(const MoeConfig& moe, const LocalMoe& rank, std::size_t sequences) {
  const std::size_t rows = moe.top_k * rank.tokens(sequences);
  return {.sent = rows, .received = rows};
}

ExpertRows most_rows(const MoeConfig& moe, const LocalMoe& rank, std::size_t sequences) {
  const std::size_t tokens = rank.tokens(sequences);
  const std::size_t chosen = std::min(moe.top_k, moe.num_experts / rank.ep);
  ExpertRows rows{.sent = moe.top_k * tokens, .received = rank.ep * tokens * chosen};
  if (moe.capacity_factor) {
    rows.received = std::min(rows.received, places_of_rank(moe, rank, sequences));
  }
  return rows;
}

RankParameters rank_parameters(const MoeModel& model, const LocalMoe& rank) {
  const MoeConfig& moe = model.moe;
  const std::size_t h = model.shape.hidden_size;
  const std::size_t tp = rank.share.tensor.ranks();
  const std::size_t expert = 3 * h * moe.expert_ffn / tp;
  RankParameters counts{
      .experts = model.moe_blocks() * (moe.num_experts / rank.ep) * expert,
      .others = tensor_parallel::parameter_count(without_ffn(model.shape), rank.share.tensor)};
  if (model.attention_parameters) {
    const std::size_t ours = 2 * h * (h + model.shape.kv_hidden_size());
    counts.others += model.shape.num_layers * (*model.attention_parameters / tp);
    counts.others -= model.shape.num_layers * (ours / tp);
  }
  counts.others += model.dense_blocks * 3 * h * model.shape.ffn_hidden_size / tp;
  const std::size_t biases = moe.balance == Balance::kBias ? moe.num_experts : 0;
  counts.others +=
      model.moe_blocks() * (moe.shared_experts * expert + moe.num_experts * h + biases);
  return counts;
}

zero::RankBytes state_bytes(const RankParameters& parameters, const zero::Sharding& sharding,
                            std::size_t ep, memory::NumberFormats precision) {
  zero::Sharding of_experts = sharding;
  const int ranks = sharding.shards * sharding.replicas / static_cast<int>(ep);
  of_experts.shards = std::min(sharding.shards, ranks);
  of_experts.replicas = ranks / of_experts.shards;
  const zero::RankBytes experts = zero::bytes_per_rank(of_experts, parameters.experts, precision);
  const zero::RankBytes others = zero::bytes_per_rank(sharding, parameters.others, precision);
  return {.parameters = experts.parameters + others.parameters,
          .gradients = experts.gradients + others.gradients,
          .optimizer = experts.optimizer + others.optimizer};
}

namespace {

/// The layer's input stays for the router, where a dense block has codes.
std::size_t codes_for_experts(const MoeModel& model, memory::NumberFormats precision,
                              memory::Recompute mode, const LocalMoe& rank, std::size_t tokens) {
  if (!memory::keeps_codes(precision)) return 0;
  const auto& tensor = rank.share.tensor;
  const std::size_t local = tokens / (tensor.splits_sequences() ? tensor.ranks() : 1);
  const std::size_t h = model.shape.hidden_size;
  if (mode == memory::Recompute::kSelective) return memory::scale_bytes(precision, local, h);
  return memory::linear_input_bytes(precision, local, h) -
         memory::activation_element_bytes(precision) * local * h;
}

/// Bytes of a linear layer's input. A rank that has a part of the features has the scales of all.
std::size_t input_bytes(memory::NumberFormats precision, std::size_t rows, std::size_t features,
                        std::size_t parts) {
  return memory::linear_input_bytes(precision, rows, features / parts) -
         memory::scale_bytes(precision, rows, features / parts) +
         memory::scale_bytes(precision, rows, features);
}

/// Of rows: inputs, gate, up and product of those that came; outputs of those that went.
std::size_t row_bytes(const MoeModel& model, memory::NumberFormats precision,
                      memory::Recompute mode, std::size_t tp, const ExpertRows& rows) {
  // Experts are in fp8 with scales of tiles only.
  const memory::NumberFormats inputs = precision == memory::NumberFormats::kFp8Tensors
                                           ? memory::NumberFormats::kTwoBytes
                                           : precision;
  const std::size_t e = memory::activation_element_bytes(precision);
  const std::size_t h = model.shape.hidden_size;
  const std::size_t f = model.moe.expert_ffn;
  const std::size_t product = mode == memory::Recompute::kNone
                                  ? input_bytes(inputs, rows.received, f, tp)
                                  : memory::scale_bytes(inputs, rows.received, f);
  return e * (rows.sent * h + rows.received * (2 * f / tp)) +
         input_bytes(inputs, rows.received, h, 1) + product;
}

/// Of the experts that every token uses: gate, up and product; where they keep codes, their input too.
/// Of what selective recomputation drops, the scales stay.
std::size_t shared_bytes(const MoeModel& model, memory::NumberFormats precision,
                         memory::Recompute mode, const LocalMoe& rank, std::size_t tokens) {
  const std::size_t f = model.moe.shared_experts * model.moe.expert_ffn;
  if (f == 0) return 0;
  const auto& tensor = rank.share.tensor;
  const std::size_t local = tokens / (tensor.splits_sequences() ? tensor.ranks() : 1);
  const std::size_t h = model.shape.hidden_size;
  const std::size_t gates =
      memory::activation_element_bytes(precision) * tokens * (2 * f / tensor.ranks());
  if (mode == memory::Recompute::kSelective) {
    return gates + memory::scale_bytes(precision, tokens, f) +
           memory::scale_bytes(precision, local, h);
  }
  return gates + input_bytes(precision, tokens, f, tensor.ranks()) +
         (memory::keeps_codes(precision) ? input_bytes(precision, local, h, 1) : 0);
}

}  // namespace

std::size_t moe_block_bytes(const MoeModel& model, std::size_t sequences,
                            memory::NumberFormats precision, memory::Recompute mode,
                            const LocalMoe& rank, const ExpertRows& rows) {
  const std::size_t rest = context_parallel::block_activation_bytes(
      without_ffn(model.shape), sequences, precision, mode, rank.share);
  if (mode == memory::Recompute::kFull) return rest;
  const MoeConfig& moe = model.moe;
  const std::size_t tokens = rank.tokens(sequences);
  std::size_t of_router = tokens * (moe.num_experts + moe.top_k);
  if (moe.balance == Balance::kAux) of_router += sequences * moe.num_experts;
  if (moe.z_coefficient > 0) of_router += tokens * moe.num_experts;
  constexpr std::size_t kChoiceBytes = 2 * sizeof(std::int32_t);
  return rest - codes_for_experts(model, precision, mode, rank, tokens) +
         row_bytes(model, precision, mode, rank.share.tensor.ranks(), rows) +
         shared_bytes(model, precision, mode, rank, tokens) +
         memory::row_sum_bytes(precision) * of_router + kChoiceBytes * tokens * moe.top_k;
}

std::size_t moe_waiting_bytes(const MoeModel& model, std::size_t sequences,
                              memory::NumberFormats precision, const LocalMoe& rank,
                              const ExpertRows& rows) {
  const MoeConfig& moe = model.moe;
  const std::size_t h = model.shape.hidden_size;
  const std::size_t tp = rank.share.tensor.ranks();
  const std::size_t inputs = rank.share.tensor.splits_sequences() ? 0 : 2 * h;
  const std::size_t shared = moe.shared_experts * moe.expert_ffn;
  return memory::activation_element_bytes(precision) *
         (rank.tokens(sequences) * (inputs + (h + shared) / tp) +
          rows.received * (h + moe.expert_ffn / tp));
}

std::size_t moe_deferred_bytes(const MoeModel& model, std::size_t sequences,
                               memory::NumberFormats precision, const LocalMoe& rank,
                               const ExpertRows& rows) {
  const MoeConfig& moe = model.moe;
  const auto& tensor = rank.share.tensor;
  const std::size_t h = model.shape.hidden_size;
  const std::size_t tp = tensor.ranks();
  const std::size_t kv = tensor.local_kv_heads(model.shape.num_kv_heads) * model.shape.head_dim();
  const std::size_t shared = moe.shared_experts * moe.expert_ffn;
  const bool shares = shared > 0;
  const std::size_t gathered = tensor.splits_sequences() ? (shares ? 3 : 2) * h : 0;
  const std::size_t of_token =
      gathered + h + h / tp + 2 * kv + moe.num_experts + (shares ? h : 0) + 2 * shared / tp;
  return memory::activation_element_bytes(precision) *
             (rank.tokens(sequences) * of_token + rows.received * (h + 2 * moe.expert_ffn / tp)) +
         memory::row_sum_bytes(precision) * 2 * h;
}

std::size_t moe_peak_bytes(const MoeModel& model, std::size_t sequences,
                           memory::NumberFormats precision, const memory::RecomputeConfig& config,
                           const LocalMoe& rank, const ExpertRows& rows) {
  const auto of_block = [&](memory::Recompute mode) {
    return moe_block_bytes(model, sequences, precision, mode, rank, rows);
  };
  return tensor_parallel::peak_of_blocks(
      model.shape.num_layers, config, of_block(config.mode), of_block(memory::Recompute::kNone),
      tensor_parallel::outside_activation_bytes(
          model.shape, {.size = sequences, .seq_len = rank.share.layout.local_seq_len()}, precision,
          rank.share.tensor));
}

}  // namespace ultra::expert_parallel
