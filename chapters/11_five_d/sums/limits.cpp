#include "chapters/11_five_d/sums/limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/03_data_parallel/options/micro_batch_sizes.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/10_mixed_precision/mixed_precision.hpp"
#include "common/base/errors.hpp"
#include "common/ops/sums/sum_tree.hpp"

namespace ultra::five_d {
namespace {

/// The rows of the flag, one by one.
class TreeRows {
 public:
  explicit TreeRows(bool given) : given_(given) {}

  void exclude(std::string flag, bool asked, std::string reason) {
    rows_.push_back({.first = std::move(flag),
                     .second = std::string(kTreeSumsFlag),
                     .reason = std::move(reason),
                     .broken = given_ && asked});
  }
  [[nodiscard]] std::vector<train::Conflict> take() { return std::move(rows_); }

 private:
  bool given_;
  std::vector<train::Conflict> rows_;
};

/// Tokens of a sequence that cp ranks have are below its other sums: each sequence must be whole first.
void expect_whole_sequences(const train::Setup& setup, const std::vector<std::size_t>& sizes) {
  const std::size_t cp = setup.ranks_along(context_parallel::kAxis);
  if (cp == 1 || sizes.front() == 1) return;
  throw ConfigError(fmt::format(
      "{}: with --cp {}, ranks add up each micro-batch's gradients, and a node of the tree over "
      "tokens is one sequence; found {} of them. Use --micro-batch 1.",
      kTreeSumsFlag, cp, sizes.front()));
}

void expect_power_of_two(std::size_t sequences, const std::string& whose, const char* advice) {
  if (std::has_single_bit(sequences)) return;
  throw ConfigError(fmt::format(
      "{}: {} has {} sequences, and a node of the tree over sequences has 1, 2, 4, 8, ... of them. "
      "{}",
      kTreeSumsFlag, whose, sequences, advice));
}

/// Of the batch: micro-batches, and shares of replicas.
void expect_nodes_of_sequences(const train::Setup& setup) {
  const std::size_t seq = setup.train.model.max_seq_len;
  if (ops::SumTree::of_axis(seq).leaf() != ops::SumTree::of_axis(2 * seq).leaf()) {
    throw ConfigError(
        fmt::format("{}: --seq is {}, and a leaf of the tree over tokens would be more than one "
                    "sequence. Choose "
                    "--seq of at least {}.",
                    kTreeSumsFlag, seq, ops::SumTree::kLongestLeaf / 2 + 1));
  }
  const auto replicas = static_cast<std::size_t>(setup.replicas());
  const std::size_t batch = setup.train.global_batch;
  if (batch % replicas != 0) {
    throw ConfigError(fmt::format(
        "{}: --dp must divide --global-batch, so that all shares are nodes of one tree: "
        "{} % {} = {}.",
        kTreeSumsFlag, batch, replicas, batch % replicas));
  }
  if (deals_in_turn(setup)) {
    if (!std::has_single_bit(replicas)) {
      throw ConfigError(fmt::format(
          "{}: with {}, replicas add up each micro-batch first, which makes a node of 1, 2, 4, 8, "
          "... replicas; found --dp {}. Use {}, one micro-batch, or another --dp.",
          kTreeSumsFlag, joins_shards(setup) ? "--zero 2 or 3" : "--ep", replicas,
          joins_shards(setup) ? "--zero 1" : "--ep 1"));
    }
  } else if (replicas > 1) {
    expect_power_of_two(batch / replicas, fmt::format("a replica of --dp {}", replicas),
                        "Choose --global-batch as --dp times a power of two.");
  }
  const std::vector<std::size_t> sizes = data_parallel::micro_batch_sizes(setup.train, replicas);
  expect_whole_sequences(setup, sizes);
  for (const std::size_t sequences : sizes) {
    expect_power_of_two(sequences, "a micro-batch",
                        "Choose --micro-batch as a power of two that divides a replica's share.");
  }
}

/// Of each sequence, which cp cuts, and tp with --sp on.
void expect_nodes_of_tokens(const train::Setup& setup) {
  const auto* tensor = setup.find<tensor_parallel::TensorParallel>();
  const std::size_t cp = setup.ranks_along(context_parallel::kAxis);
  const bool by_tp = tensor->options().layout().splits_sequences();
  const std::size_t parts = cp * (by_tp ? tensor->options().tp : 1);
  const std::size_t seq = setup.train.model.max_seq_len;
  const std::string why = ops::SumTree::of_axis(seq).why_not(seq, parts);
  if (why.empty()) return;
  throw ConfigError(fmt::format(
      "{} cannot cut --seq, {}, among {} ranks (--cp {}{}): {}. Choose another --seq, or fewer "
      "ranks.",
      kTreeSumsFlag, seq, parts, cp, by_tp ? fmt::format(", --tp {} --sp on", parts / cp) : "",
      why));
}

/// Of the axes that tp cuts.
void expect_nodes_of_matrices(const train::Setup& setup) {
  const std::size_t tp = setup.ranks_along(tensor_parallel::kAxis);
  if (tp == 1) return;
  const nn::ModelConfig& model = setup.train.model;
  if (model.num_kv_heads % tp != 0) {
    throw ConfigError(fmt::format(
        "{}: --tp must divide --kv-heads, since ranks that share a head add its gradient up in an "
        "order of their own: {} % {} = {}. Choose --kv-heads as a multiple of --tp.",
        kTreeSumsFlag, model.num_kv_heads, tp, model.num_kv_heads % tp));
  }
  const expert_parallel::ExpertParallelOptions& experts = expert_parallel::options_of(setup);
  const expert_parallel::MoeConfig mixture = experts.config(model.ffn_hidden_size);
  const nn::LatentAttention& latent = model.latent;
  const std::pair<const char*, std::size_t> axes[] = {
      {"the width of all queries (--heads times --head-dim)", model.q_hidden_size()},
      {"the width of all keys (--kv-heads times --head-dim)",
       latent.on ? 0 : model.kv_hidden_size()},
      {"the width of all keys and values that latents make (--heads times (--qk-nope-head-dim plus "
       "--v-head-dim))",
       latent.on ? model.num_heads * (latent.qk_nope_head_dim + latent.v_head_dim) : 0},
      {"the width of all values (--heads times --v-head-dim)",
       latent.on ? model.num_heads * latent.v_head_dim : 0},
      {"--ffn", experts.has_experts() ? 0 : model.ffn_hidden_size},
      {"the width of an expert (--expert-ffn)", mixture.num_experts > 0 ? mixture.expert_ffn : 0},
      {"the width of all shared experts", mixture.shared_experts * mixture.expert_ffn},
      {"--vocab", model.vocab_size}};
  for (const auto& [name, length] : axes) {
    if (length == 0) continue;
    const std::string why = ops::SumTree::of_axis(length).why_not(length, tp);
    if (why.empty()) continue;
    throw ConfigError(
        fmt::format("{} cannot cut {}, {}, among --tp {} ranks: {}. Choose another "
                    "size, or another --tp.",
                    kTreeSumsFlag, name, length, tp, why));
  }
}

/// Of heads, whose gradients are added up where a weight is for all of them.
void expect_nodes_of_heads(const train::Setup& setup) {
  const nn::ModelConfig& model = setup.train.model;
  const std::size_t tp = setup.ranks_along(tensor_parallel::kAxis);
  if (tp == 1 || !(model.qk_norm || model.latent.on)) return;
  const std::size_t heads = model.num_heads / tp;
  const std::size_t kv_heads = model.num_kv_heads / tp;
  if (std::has_single_bit(heads) && std::has_single_bit(kv_heads)) return;
  throw ConfigError(fmt::format(
      "{}: {} for all heads, and each of --tp {} ranks must have 1, 2, 4, 8, ... of them; found {} "
      "of --heads and {} of --kv-heads. Choose these as --tp times a power of two.",
      kTreeSumsFlag,
      model.latent.on ? "--attention mla has one rotated part of keys" : "--qk-norm has one weight",
      tp, heads, kv_heads));
}

/// Of the ranks that share experts out.
void expect_nodes_of_ranks(const train::Setup& setup) {
  const std::size_t ep = expert_parallel::options_of(setup).ep;
  const auto ranks = static_cast<std::size_t>(setup.data_ranks());
  if (std::has_single_bit(ep) || ep == ranks) return;
  throw ConfigError(fmt::format(
      "{}: the ranks of --ep have a node of tokens together, and must be 1, 2, 4, 8, ... or all {} "
      "of --dp times --cp; found --ep {}.",
      kTreeSumsFlag, ranks, ep));
}

}  // namespace

std::vector<train::Conflict> conflicts_with_trees(const train::Setup& setup, bool given) {
  TreeRows rows(given);
  const train::TrainOptions& train = setup.train;
  const auto* tensor = setup.find<tensor_parallel::TensorParallel>();
  const auto* context = setup.find<context_parallel::ContextParallel>();
  const auto* experts = setup.find<expert_parallel::ExpertParallel>();
  const auto* mixed = setup.find<mixed_precision::MixedPrecision>();
  const auto* schedule = pipeline_parallel::schedule_of(setup);
  const data_parallel::DataParallelOptions& data = data_parallel::options_of(setup);
  const zero::Zero& zero = zero::zero_of(setup);

  rows.exclude("--cp-layout zigzag",
               context->options().splits() &&
                   context->options().layout == context_parallel::SequenceLayout::kZigzag,
               "a rank's two chunks are two nodes of the tree over tokens. Use --cp-layout "
               "contiguous.");
  rows.exclude("--cp-method ring or ulysses+ring",
               context->options().splits() && context->options().choice().ring() > 1 &&
                   context->options().method != context_parallel::ContextMethod::kAllGather,
               "gradients of keys are added up in the order of its hops. Use --cp-method "
               "all-gather or ulysses.");
  rows.exclude("--tp-overlap ring",
               tensor->options().overlap == tensor_parallel::TensorOverlap::kRing,
               "a ring adds in the order of its hops. Use --tp-overlap backward.");
  rows.exclude(
      "--capacity-group micro-batch",
      experts->options().has_experts() && experts->options().moe.capacity_factor &&
          experts->options().moe.capacity_group == expert_parallel::CapacityGroup::kMicroBatch,
      "which tokens an expert drops depends on the layout. Use --capacity-group sequence.");
  rows.exclude("--mtp", train.model.mtp,
               "table and head are used twice, in an order that no tree has.");
  rows.exclude("--head-chunks", train.model.head_chunks > 1,
               "its gradients are sums over pieces of the tokens, which layouts cut otherwise.");
  rows.exclude("--head-z-loss", train.head_z_loss > 0,
               "its log-sum-exps are not those of the trees.");
  rows.exclude(
      "--attention mla-absorbed with --tp or --cp",
      train.model.latent.on && train.model.latent.absorbed &&
          (setup.ranks_along(tensor_parallel::kAxis) > 1 || context->options().splits()),
      "a latent is the key and the value of all heads, and ranks add up what these give in "
      "an order that no tree has. Use --attention mla.");
  rows.exclude("--hybrid-shard", zero.options().node_size.has_value(),
               "its two sums are of nodes of ranks. Leave it out.");
  rows.exclude("--compress", data.compress != "none", "what travels is rounded.");
  rows.exclude("--zero++", !zero.options().plus_plus.techniques.empty(),
               "what travels is rounded, or added up in nodes of ranks.");
  rows.exclude("--offload", zero.settings(setup).offload.what != zero::Offload::kNone,
               "the host adds up what is outside the device in blocks of its own.");
  rows.exclude("--schedule pipedream-async",
               schedule != nullptr && train::updates_between(schedule->ranks.front()),
               "its stages update behind every micro-batch, whose gradients no tree joins.");
  rows.exclude("--precision fp16 or fp8",
               mixed->options().recipe == mixed_precision::Recipe::kFp16 ||
                   mixed->options().recipe == mixed_precision::Recipe::kFp8,
               "its trees are of bf16, f32 and f64.");
  rows.exclude("--precision bf16-pure or --grad-dtype bf16",
               mixed->options().is_mixed() && mixed->options().types().gradients == DType::kBF16,
               "gradients would be rounded once per micro-batch, of which layouts have others. Use "
               "--precision bf16, whose gradients are f32.");
  rows.exclude("--round-sums", mixed->options().rounded_sums.any(),
               "they are rounded after every addition, in an order that no tree has.");
  rows.exclude("--optimizer-state bf16 or int8",
               mixed->options().moments != mixed_precision::MomentFormat::kF32,
               "blocks of moments are cut where shards are.");
  rows.exclude("--loss-scale", mixed->options().scaling() != mixed_precision::LossScaling::kNone,
               "exact sums of losses have no scale.");
  rows.exclude("--matmul", !train.matmul.empty() && train.matmul != "tree",
               "those products have no trees. Leave it out.");
  rows.exclude("--collectives native", setup.comm.collectives == train::Collectives::kNative,
               "the platform adds in an order of its own.");
  const std::string order = fmt::format("it adds with {}.", kTreeExchange);
  rows.exclude("--all-reduce",
               data.all_reduce != data_parallel::DataParallelOptions().all_reduce &&
                   data.all_reduce != kTreeExchange,
               order);
  rows.exclude("--reduce-scatter",
               zero.options().reduce_scatter != zero::ZeroOptions().reduce_scatter &&
                   zero.options().reduce_scatter != kTreeExchange,
               order);
  return rows.take();
}

bool joins_shards(const train::Setup& setup) {
  const zero::ZeroStage stage = zero::zero_of(setup).options().stage;
  return stage == zero::ZeroStage::kGradients || stage == zero::ZeroStage::kParameters;
}

bool deals_in_turn(const train::Setup& setup) {
  if (!joins_shards(setup) && expert_parallel::options_of(setup).ep == 1) return false;
  const auto replicas = static_cast<std::size_t>(setup.replicas());
  return data_parallel::micro_batch_sizes(setup.train, replicas).size() > 1;
}

void expect_nodes(const train::Setup& setup) {
  expect_nodes_of_sequences(setup);
  expect_nodes_of_tokens(setup);
  expect_nodes_of_matrices(setup);
  expect_nodes_of_heads(setup);
  expect_nodes_of_ranks(setup);
}

}  // namespace ultra::five_d
