#include "chapters/11_five_d/planner/layout/layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "chapters/07_pipeline_parallel/lists/schedules.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::planner {
namespace {

using context_parallel::ContextMethod;
using pipeline_parallel::ScheduleKind;
using zero::ZeroStage;

std::string unless_divides(const char* what, std::size_t value, const char* by, std::size_t parts) {
  if (parts != 0 && value % parts == 0) return {};
  return fmt::format("{} {} must be a multiple of {} {}", what, value, by, parts);
}

std::size_t least_micro_batches(const Layout& layout) {
  const auto fills = layout.schedule.row().fills;
  return fills == nullptr ? 1 : fills(layout.pp);
}

std::string schedule_problem(const Workload& work, const Layout& layout) {
  const std::size_t m = micro_batches_of(work, layout);
  const std::size_t chunks = layout.pp * layout.schedule.chunks();
  if (layout.pp == 1 && layout.schedule.kind != ScheduleKind::kOneFOneB) {
    return fmt::format("{} needs more than one stage", layout.schedule.str());
  }
  if (chunks > work.model.shape().num_layers + 2) {
    return fmt::format("{} chunks need as many blocks, but for the tables' two; the model has {}",
                       chunks, work.model.shape().num_layers);
  }
  if (!layout.schedule.takes(m, layout.pp)) {
    return fmt::format("interleaving needs a multiple of pp {} micro-batches, not {}", layout.pp,
                       m);
  }
  if (m < least_micro_batches(layout)) {
    return fmt::format("{} needs {} micro-batches; there are {}", layout.schedule.str(),
                       least_micro_batches(layout), m);
  }
  return {};
}

std::string expert_problem(const Workload& work, const Layout& layout) {
  if (!work.model.has_experts()) {
    return layout.ep == 1 ? "" : fmt::format("ep {} needs a model with experts", layout.ep);
  }
  const std::string experts =
      unless_divides("the experts", work.model.layers.moe.num_experts, "ep", layout.ep);
  if (!experts.empty()) return experts;
  return unless_divides("dp x cp", layout.dp * layout.cp, "ep", layout.ep);
}

std::string copies_problem(const Workload&, const Layout& layout) {
  if (layout.copies == 1) return {};
  if (layout.zero == ZeroStage::kNone) return "hybrid sharding needs ZeRO: nothing is sharded";
  if (layout.ep > 1) return "hybrid sharding is planned without ep";
  return unless_divides("dp x cp", layout.dp * layout.cp, "the copies", layout.copies);
}

std::string tensor_problem(const Workload& work, const Layout& layout) {
  const memory::TransformerShape& s = work.model.shape();
  for (const auto& [what, value] :
       {std::pair{"heads", s.num_heads}, std::pair{"the feed-forward width", s.ffn_hidden_size}}) {
    std::string problem = unless_divides(what, value, "tp", layout.tp);
    if (!problem.empty()) return problem;
  }
  const std::size_t small = std::min(s.num_kv_heads, layout.tp);
  const std::size_t large = std::max(s.num_kv_heads, layout.tp);
  if (large % small != 0) {
    return fmt::format("of key/value heads {} and tp {}, one must divide the other", s.num_kv_heads,
                       layout.tp);
  }
  return {};
}

std::string context_problem(const Workload& work, const Layout& layout) {
  if (layout.cp == 1 || layout.context_method != ContextMethod::kUlysses) return {};
  const memory::TransformerShape& s = work.model.shape();
  const std::size_t keys = std::max<std::size_t>(1, s.num_kv_heads / layout.tp);
  return unless_divides("for Ulysses, a rank's key/value heads", keys, "cp", layout.cp);
}

std::string batch_problem(const Workload& work, const Layout& layout) {
  const std::size_t split = layout.cp * (layout.sequence_parallel ? layout.tp : 1);
  std::string problem =
      unless_divides("the sequence", work.seq_len, layout.cp > 1 ? "2 cp (x tp)" : "tp",
                     layout.cp > 1 ? 2 * split : split);
  if (!problem.empty()) return problem;
  return unless_divides("the batch of sequences", work.global_batch, "dp x micro-batch",
                        layout.dp * layout.micro_batch);
}

/// What the output table costs, in blocks.
double table_in_blocks(const ModelShape& model) {
  const double table = static_cast<double>(model.shape().vocab_size) *
                       static_cast<double>(model.shape().hidden_size);
  const double blocks = multiplied_parameters(model) - table;
  return table * static_cast<double>(model.shape().num_layers) / blocks;
}

}  // namespace

std::string_view name_of(ContextMethod method) {
  switch (method) {
    case ContextMethod::kRing:
      return "ring";
    case ContextMethod::kUlysses:
      return "ulysses";
    default:
      return "all-gather";
  }
}

std::string Layout::str() const {
  std::string text = fmt::format("dp {}", dp);
  for (const auto& [name, size] : {std::pair{"pp", pp}, std::pair{"cp", cp}, std::pair{"tp", tp}}) {
    if (size > 1) text += fmt::format(" x {} {}", name, size);
  }
  if (ep > 1) text += fmt::format(", ep {}", ep);
  if (zero != zero::ZeroStage::kNone) text += fmt::format(", {}", zero::name_of(zero));
  if (copies > 1) text += fmt::format(" in groups of {}", shard_ranks());
  if (pp > 1) text += fmt::format(", {}", schedule.str());
  text += fmt::format(", micro-batch {}", micro_batch);
  if (recompute != memory::Recompute::kNone) {
    text += fmt::format(", recompute {}", memory::to_string(recompute));
  }
  if (tp > 1 && sequence_parallel) text += ", sp";
  if (cp > 1 && context_method != ContextMethod::kAllGather) {
    text += fmt::format(", {}", name_of(context_method));
  }
  if (offload) text += ", offload";
  if (offload_activations) text += ", offload activations";
  return text;
}

double Software::kept_gradient_bytes(memory::NumberFormats precision) const {
  const double bytes = static_cast<double>(memory::bytes_per_parameter(precision).gradients);
  const bool both = precision == memory::NumberFormats::kBf16MixedFp32Grads;
  return both && !low_precision_gradients ? bytes - 2 : bytes;
}

const std::vector<Software>& named_software() {
  static const std::vector<ScheduleKind> megatron = {ScheduleKind::kOneFOneB,
                                                     ScheduleKind::kInterleaved};
  static const std::vector<Outermost> stages_outermost = {Outermost::kPipeline};
  static const std::vector<Outermost> both = {Outermost::kPipeline, Outermost::kData};
  static const std::vector<Software> all = {
      {.name = "modern",
       .overlaps_data = true,
       .overlaps_tensor = true,
       .overlaps_pipeline = true,
       .overlaps_experts = true,
       .sends_once_per_node = true,
       .shards_in_groups = true,
       .orders = {Outermost::kData, Outermost::kPipeline},
       .balances_stages = true},
      {.name = "megatron-2021",
       .attention = AttentionKernel::kStored,
       .exchanged_gradient_bytes = 2,
       .offloads_activations = false,
       .offloads_optimizer = false,
       .most_zero = ZeroStage::kNone,
       .orders = both,
       .schedules = megatron,
       .overlaps_weight_gradients = false},
      {.name = "megatron-2022",
       .attention = AttentionKernel::kStored,
       .offloads_activations = false,
       .offloads_optimizer = false,
       .most_zero = ZeroStage::kOptimizer,
       .orders = both,
       .schedules = megatron},
      {.name = "megatron-2023",
       .offloads_activations = false,
       .offloads_optimizer = false,
       .most_zero = ZeroStage::kOptimizer,
       .orders = both,
       .schedules = megatron},
      {.name = "megatron-core",
       .overlaps_data = true,
       .overlaps_tensor = true,
       .most_zero = ZeroStage::kOptimizer,
       .orders = both,
       .schedules = megatron},
      {.name = "megascale",
       .overlaps_data = true,
       .overlaps_tensor = true,
       .overlaps_pipeline = true,
       .offloads_activations = false,
       .offloads_optimizer = false,
       .most_zero = ZeroStage::kGradients,
       .orders = stages_outermost,
       .schedules = megatron},
      {.name = "nanotron",
       .fused_elementwise = false,
       .fused_accumulation = false,
       .loss_bytes = 8,
       .low_precision_gradients = true,
       .buckets_apart = true,
       .overlaps_data = true,
       .offloads_activations = false,
       .offloads_optimizer = false,
       .most_zero = ZeroStage::kOptimizer,
       .orders = stages_outermost,
       .schedules = {ScheduleKind::kAfab, ScheduleKind::kOneFOneB},
       .balances_stages = true,
       .exchanges_each_tensor = true},
      {.name = "llama3",
       .overlaps_data = true,
       .overlaps_pipeline = true,
       .offloads_activations = false,
       .offloads_optimizer = false,
       .schedules = megatron},
      {.name = "deepseek",
       .exchanged_gradient_bytes = 2,
       .overlaps_data = true,
       .overlaps_pipeline = true,
       .overlaps_experts = true,
       .sends_once_per_node = true,
       .offloads_activations = false,
       .offloads_optimizer = false,
       .most_zero = ZeroStage::kOptimizer,
       .schedules = {ScheduleKind::kOneFOneB, ScheduleKind::kDualPipeV},
       .balances_stages = true,
       .fp8_products = true,
       .exchanging_multiprocessors = 20},
      {.name = "workbook",
       .fused_projections = false,
       .split_loss_bytes = 4,
       .overlaps_data = true,
       .gathers_ahead = false,
       .validates_later = false,
       .offloads_activations = false,
       .shards_in_groups = true,
       .overlaps_weight_gradients = false,
       .tables_fill_chunks = false,
       .keeps_gathered = true,
       .on_gpus = false},
      {.name = "deepspeed-2021",
       .attention = AttentionKernel::kStored,
       .exchanged_gradient_bytes = 2,
       .overlaps_data = true,
       .orders = stages_outermost,
       .schedules = {ScheduleKind::kOneFOneB},
       .data_nics = 1},
      {.name = "torchtitan",
       .fused_projections = false,
       .loss_bytes = 12,
       .split_loss_bytes = 4,
       .keeps_all_logits = true,
       .receives_apart = true,
       .keeps_half_products = true,
       .weights_are_masters = true,
       .expandable_segments = true,
       .last_norm_in_fp32 = true,
       .orders_apart = true,
       .repeats_keys = true,
       .overlaps_data = true,
       .offloads_activations = false,
       .offloads_optimizer = false,
       .shards_in_groups = true,
       .orders = stages_outermost,
       .schedules = {ScheduleKind::kOneFOneB, ScheduleKind::kInterleaved, ScheduleKind::kZbV},
       .overlaps_weight_gradients = false,
       .keeps_inputs_gathered = true},
      {.name = "llmq", .overlaps_data = true, .schedules = {ScheduleKind::kOneFOneB}}};
  return all;
}

const Software& find_software(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Software& one : named_software()) {
    if (one.name == name) return one;
    names.push_back(one.name);
  }
  throw ConfigError(
      fmt::format("No software is called {}. Choose {}.", in_quotes(name), fmt::join(names, ", ")));
}

std::size_t micro_batches_of(const Workload& work, const Layout& layout) {
  return work.global_batch / (layout.dp * layout.micro_batch);
}

std::optional<std::string> why_impossible(const Workload& work, const Layout& layout) {
  for (const auto& problem : {tensor_problem, context_problem, batch_problem, expert_problem,
                              copies_problem, schedule_problem}) {
    if (std::string words = problem(work, layout); !words.empty()) return words;
  }
  return {};
}

std::vector<std::size_t> blocks_of_stages(const ModelShape& model, const Layout& layout,
                                          const Software& software) {
  const std::size_t layers = model.shape().num_layers;
  std::vector<std::size_t> blocks(layout.pp, layers / layout.pp);
  if (layout.pp == 1) return blocks;
  if (software.balances_stages) {
    const double table = table_in_blocks(model);
    const double even = (static_cast<double>(layers) + table) / static_cast<double>(layout.pp);
    const double last = std::floor(std::max(0.0, even - table) + 0.5);
    const std::size_t rest = layers - static_cast<std::size_t>(last);
    for (std::size_t stage = 0; stage + 1 < layout.pp; ++stage) {
      blocks[stage] = rest * (stage + 1) / (layout.pp - 1) - rest * stage / (layout.pp - 1);
    }
    blocks.back() = static_cast<std::size_t>(last);
    return blocks;
  }
  // As many as in the largest stage everywhere, less what is missing: behind first, then in front.
  const std::size_t missing = (layout.pp - layers % layout.pp) % layout.pp;
  if (missing == 0) return blocks;
  for (std::size_t& count : blocks) ++count;
  for (std::size_t i = 0; i < missing; ++i) {
    const std::size_t from_end = i / 2;
    --blocks[i % 2 == 0 ? layout.pp - 1 - from_end : from_end];
  }
  return blocks;
}

}  // namespace ultra::planner
