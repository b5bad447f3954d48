#include "chapters/11_five_d/planner/export/exported_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "common/base/json.hpp"

namespace ultra::planner {
namespace {

using memory::Recompute;
using pipeline_parallel::ScheduleKind;
using zero::ZeroStage;

/// Options, several to a line.
class OptionLines {
 public:
  void add(const std::string& option) { options_.push_back(option); }
  template <class T>
  void add(const char* flag, const T& value) {
    add(fmt::format("{} {}", flag, value));
  }
  [[nodiscard]] std::string str() const {
    std::string text;
    std::size_t width = 0;
    constexpr std::size_t kWidth = 92;
    for (const std::string& option : options_) {
      const bool breaks = width > 0 && width + option.size() > kWidth;
      if (breaks) {
        text += " \\\n";
        width = 0;
      }
      text += width == 0 ? option : " " + option;
      width += option.size() + 1;
    }
    return text + "\n";
  }
  [[nodiscard]] const std::vector<std::string>& options() const { return options_; }

 private:
  std::vector<std::string> options_;
};

bool in_bf16(const Layout& layout) {
  return layout.precision == memory::NumberFormats::kBf16Mixed ||
         layout.precision == memory::NumberFormats::kBf16MixedFp32Grads;
}

void add_megatron_model(OptionLines& lines, const Workload& work) {
  const memory::TransformerShape& s = work.model.shape();
  lines.add("--num-layers", s.num_layers);
  lines.add("--hidden-size", s.hidden_size);
  lines.add("--num-attention-heads", s.num_heads);
  lines.add("--ffn-hidden-size", s.ffn_hidden_size);
  if (s.num_kv_heads != s.num_heads) {
    lines.add("--group-query-attention");
    lines.add("--num-query-groups", s.num_kv_heads);
  }
  if (s.kind == memory::BlockKind::kLlama) {
    lines.add("--swiglu");
    lines.add("--normalization RMSNorm");
    lines.add("--disable-bias-linear");
    lines.add("--position-embedding-type rope");
  }
  if (s.embeddings == memory::Embeddings::kUntied) {
    lines.add("--untie-embeddings-and-output-weights");
  }
  lines.add("--seq-length", work.seq_len);
  lines.add("--max-position-embeddings", work.seq_len);
  if (!work.model.has_experts()) return;
  const expert_parallel::MoeConfig& moe = work.model.layers.moe;
  lines.add("--num-experts", moe.num_experts);
  lines.add("--moe-ffn-hidden-size", moe.expert_ffn);
  lines.add("--moe-router-topk", moe.top_k);
  lines.add("--moe-grouped-gemm");
}

/// The modules whose tensors selective recomputation drops here: the scores of attention that stores
/// them; else the outputs of norms and the products of SwiGLU.
std::string megatron_modules(const ModelShape& model) {
  if (model.shape().kind == memory::BlockKind::kGpt) return "core_attn";
  if (!model.has_experts()) return "layernorm mlp";
  return model.layers.dense_blocks > 0 ? "layernorm mlp moe_act" : "layernorm moe_act";
}

void add_megatron_recompute(OptionLines& lines, const ModelShape& model, const Layout& layout) {
  if (layout.recompute == Recompute::kSelective) {
    lines.add("--recompute-granularity selective");
    lines.add("--recompute-modules", megatron_modules(model));
  }
  if (layout.recompute != Recompute::kFull) return;
  lines.add("--recompute-granularity full");
  lines.add("--recompute-method uniform");
  lines.add("--recompute-num-layers 1");
}

/// Megatron-LM offloads whole layers, and refuses to beside a pipeline or recomputation.
bool megatron_offloads_layers(const Layout& layout) {
  return layout.pp == 1 && layout.recompute == Recompute::kNone;
}

void add_megatron_offload(OptionLines& lines, const ModelShape& model, const Layout& layout) {
  if (layout.offload) lines.add("--optimizer-cpu-offload --use-precision-aware-optimizer");
  if (layout.offload_activations && megatron_offloads_layers(layout)) {
    lines.add("--cpu-offloading-num-layers", model.shape().num_layers - 1);
  }
}

void add_megatron_zero(OptionLines& lines, const Layout& layout) {
  if (layout.zero == ZeroStage::kNone) return;
  if (layout.copies > 1) lines.add("--num-distributed-optimizer-instances", layout.copies);
  if (layout.zero == ZeroStage::kOptimizer) {
    lines.add("--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather");
    return;
  }
  const bool shards_weights = zero::shards_parameters(layout.zero);
  lines.add("--use-megatron-fsdp --use-distributed-optimizer --ckpt-format fsdp_dtensor");
  lines.add("--data-parallel-sharding-strategy",
            shards_weights ? "optim_grads_params" : "optim_grads");
}

bool has_other_schedule_than(const Layout& layout, bool has_interleaved) {
  const ScheduleKind kind = layout.schedule.kind;
  return layout.pp > 1 && kind != ScheduleKind::kOneFOneB &&
         !(has_interleaved && kind == ScheduleKind::kInterleaved);
}

std::string megatron_remarks(const ModelShape& model, const Layout& layout) {
  std::string remarks;
  if (has_other_schedule_than(layout, true)) {
    remarks +=
        fmt::format("# Megatron-LM has no schedule {}: it runs 1f1b.\n", layout.schedule.str());
  }
  const bool llama = model.shape().kind == memory::BlockKind::kLlama;
  const bool has_dense = !model.has_experts() || model.layers.dense_blocks > 0;
  if (layout.recompute == Recompute::kSelective && llama && has_dense) {
    remarks +=
        "# Megatron-LM cannot drop the product of SwiGLU alone: mlp computes the feed-forward\n"
        "# part again, with its matrices. It keeps less than planned, and takes longer.\n";
  }
  if (layout.offload_activations && !megatron_offloads_layers(layout)) {
    remarks +=
        "# Megatron-LM offloads no layers beside a pipeline or recomputation: activations stay.\n"
        "# See its --fine-grained-activation-offloading; as it is, this may not fit.\n";
  }
  if (model.layers.attention_parameters || model.layers.moe.shared_experts > 0 ||
      (model.has_experts() && model.layers.dense_blocks > 0)) {
    remarks +=
        "# Latent attention, shared experts and dense blocks of this model: see its own script.\n";
  }
  if (layout.outermost == Outermost::kData && layout.pp > 1) {
    remarks += "# Ranks are laid out tp, cp, pp, dp here: --use-tp-pp-dp-mapping.\n";
  }
  return remarks;
}

const char* megatron_name_of(context_parallel::ContextMethod method) {
  using context_parallel::ContextMethod;
  if (method == ContextMethod::kAllGather) return "all_gather";
  return method == ContextMethod::kUlysses ? "a2a" : "p2p";
}

std::string nanotron_remarks(const Layout& layout) {
  std::string remarks;
  if (number_of(layout.zero) > 1) {
    remarks += fmt::format("# nanotron has no {}: its optimizer is sharded only.\n",
                           zero::name_of(layout.zero));
  }
  if (layout.copies > 1) {
    remarks += "# nanotron has no hybrid sharding: all replicas share the optimizer's states.\n";
  }
  if (has_other_schedule_than(layout, false) && layout.schedule.kind != ScheduleKind::kAfab) {
    remarks += fmt::format("# nanotron has no schedule {}: it runs 1f1b.\n", layout.schedule.str());
  }
  if (layout.recompute == Recompute::kSelective) {
    remarks +=
        "# nanotron recomputes whole layers or nothing: here nothing, and this may not fit.\n";
  }
  if (layout.offload || layout.offload_activations) {
    remarks += "# nanotron leaves nothing in the host's memory: this may not fit.\n";
  }
  return remarks;
}

Json deepspeed_zero(const Layout& layout) {
  Json zero = {{"stage", zero::number_of(layout.zero)},
               {"overlap_comm", true},
               {"contiguous_gradients", true}};
  if (layout.copies > 1) zero["mics_shard_size"] = layout.shard_ranks();
  if (layout.offload) zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  return zero;
}

bool deepspeed_has_context(const Layout& layout) {
  return layout.context_method == context_parallel::ContextMethod::kUlysses && layout.tp == 1 &&
         layout.pp == 1;
}

/// What tp, pp, cp and ep of the layout need beside the configuration.
std::vector<std::string> deepspeed_mesh_remarks(const Layout& layout) {
  std::vector<std::string> remarks;
  if (layout.pp > 1) {
    remarks.push_back(fmt::format(
        "pp {0} and tp {1} are the program's: PipelineModule(topology="
        "PipeModelDataParallelTopology(num_pp={0}, num_mp={1}, num_dp={2})), and layers that share "
        "their matrices",
        layout.pp, layout.tp, layout.dp * layout.cp));
    if (number_of(layout.zero) > 1) {
      remarks.push_back("DeepSpeed refuses ZeRO-2 and ZeRO-3 with a pipeline");
    }
  } else if (layout.tp > 1 && layout.sequence_parallel) {
    remarks.push_back(
        "tensor_parallel does not split tokens between the matrices (sp): this may not fit");
  }
  if (has_other_schedule_than(layout, false)) {
    remarks.push_back(
        fmt::format("DeepSpeed has no schedule {}: it runs 1f1b", layout.schedule.str()));
  }
  if (layout.cp > 1 && !deepspeed_has_context(layout)) {
    remarks.push_back(
        fmt::format("cp {} by {} is not DeepSpeed's: it has Ulysses, without tp and pp, instead",
                    layout.cp, name_of(layout.context_method)));
  }
  if (layout.ep > 1) {
    remarks.push_back(
        fmt::format("ep {0} is the program's: deepspeed.moe.layer.MoE(ep_size={0})", layout.ep));
  }
  return remarks;
}

std::vector<std::string> deepspeed_remarks(const Layout& layout) {
  std::vector<std::string> remarks = deepspeed_mesh_remarks(layout);
  if (layout.copies > 1) {
    remarks.push_back(
        "copies of ZeRO-3's states are MiCS: the model is made inside deepspeed.zero.MiCS_Init");
  }
  if (layout.recompute == Recompute::kFull && layout.pp == 1) {
    remarks.push_back("recompute full is the program's: deepspeed.checkpointing.checkpoint");
  }
  if (layout.recompute == Recompute::kSelective) {
    remarks.push_back("DeepSpeed has no recompute selective: this may not fit");
  }
  if (layout.offload_activations && layout.recompute != Recompute::kFull) {
    remarks.push_back(
        "DeepSpeed leaves only the inputs of recomputed blocks in the host's memory: this may not "
        "fit");
  }
  return remarks;
}

/// The keys of its mesh that DeepSpeed's configuration has.
void add_deepspeed_mesh(Json& config, const Layout& layout) {
  if (layout.tp > 1 && layout.pp == 1) config["tensor_parallel"] = {{"autotp_size", layout.tp}};
  if (layout.cp > 1 && deepspeed_has_context(layout)) {
    config["sequence_parallel_size"] = layout.cp;
    config["data_parallel_size"] = layout.dp;
  }
  if (layout.pp > 1 && layout.recompute == Recompute::kFull) {
    config["pipeline"] = {{"activation_checkpoint_interval", 1}};
  }
}

OptionLines book_lines(const Workload& work, const Layout& layout) {
  OptionLines lines;
  lines.add("--dp", layout.dp);
  const std::vector<std::pair<const char*, std::size_t>> axes = {
      {"--pp", layout.pp}, {"--cp", layout.cp}, {"--tp", layout.tp}, {"--ep", layout.ep}};
  for (const auto& [flag, size] : axes) {
    if (size > 1) lines.add(flag, size);
  }
  if (layout.cp > 1) lines.add("--cp-method", name_of(layout.context_method));
  if (layout.tp > 1) lines.add("--sp", layout.sequence_parallel ? "on" : "off");
  if (layout.pp > 1) lines.add("--schedule", layout.schedule.str());
  if (layout.zero != ZeroStage::kNone) lines.add("--zero", zero::number_of(layout.zero));
  if (layout.copies > 1) lines.add("--hybrid-shard", layout.shard_ranks());
  if (layout.offload) lines.add("--offload", "optimizer");
  if (layout.recompute != Recompute::kNone) {
    lines.add("--recompute", memory::to_string(layout.recompute));
  }
  if (work.optimizer != optim::kDefaultRule) lines.add("--optimizer", work.optimizer);
  if (const auto& frozen = work.model.frozen.patterns; !frozen.empty()) {
    lines.add("--freeze", fmt::format("{}", fmt::join(frozen, ",")));
    // Which may be some of a unit's weights: a flat shard has both kinds.
    if (zero::shards_parameters(layout.zero)) lines.add("--shards", "rows");
  }
  lines.add("--seq", work.seq_len);
  lines.add("--global-batch", work.global_batch);
  lines.add("--micro-batch", layout.micro_batch);
  return lines;
}

}  // namespace

std::vector<std::string> book_options(const Workload& work, const Layout& layout) {
  return book_lines(work, layout).options();
}

std::string book_flags(const Workload& work, const Layout& layout) {
  return book_lines(work, layout).str();
}

std::string megatron_options(const Workload& work, const Layout& layout) {
  OptionLines lines;
  add_megatron_model(lines, work);
  lines.add("--tensor-model-parallel-size", layout.tp);
  lines.add("--pipeline-model-parallel-size", layout.pp);
  lines.add("--context-parallel-size", layout.cp);
  if (work.model.has_experts()) lines.add("--expert-model-parallel-size", layout.ep);
  if (layout.tp > 1 && layout.sequence_parallel) lines.add("--sequence-parallel");
  if (layout.schedule.kind == ScheduleKind::kInterleaved) {
    lines.add("--num-layers-per-virtual-pipeline-stage",
              work.model.shape().num_layers / layout.pp / layout.schedule.chunks());
  }
  lines.add("--micro-batch-size", layout.micro_batch);
  lines.add("--global-batch-size", work.global_batch);
  add_megatron_zero(lines, layout);
  if (work.optimizer != optim::kDefaultRule) lines.add("--optimizer", work.optimizer);
  if (layout.cp > 1) lines.add("--cp-comm-type", megatron_name_of(layout.context_method));
  add_megatron_offload(lines, work.model, layout);
  add_megatron_recompute(lines, work.model, layout);
  if (in_bf16(layout)) lines.add("--bf16");
  if (layout.outermost == Outermost::kData && layout.pp > 1) lines.add("--use-tp-pp-dp-mapping");
  return megatron_remarks(work.model, layout) + lines.str();
}

std::string nanotron_config(const Workload& work, const Layout& layout) {
  std::string text = "parallelism:\n";
  text += fmt::format("  dp: {}\n  pp: {}\n  tp: {}\n  context_parallel_size: {}\n", layout.dp,
                      layout.pp, layout.tp, layout.cp);
  text += fmt::format("  expert_parallel_size: {}\n", layout.ep);
  text += fmt::format("  pp_engine: {}\n",
                      layout.schedule.kind == ScheduleKind::kAfab ? "afab" : "1f1b");
  text += fmt::format("  tp_mode: {}\n  tp_linear_async_communication: {}\n",
                      layout.sequence_parallel ? "REDUCE_SCATTER" : "ALL_REDUCE", layout.tp > 1);
  text += fmt::format("  recompute_layer: {}\n", layout.recompute == Recompute::kFull);
  text += fmt::format(
      "tokens:\n  sequence_length: {}\n  micro_batch_size: {}\n  batch_accumulation_per_replica: "
      "{}\n",
      work.seq_len, layout.micro_batch, micro_batches_of(work, layout));
  text += fmt::format("optimizer:\n  zero_stage: {}\n  accumulate_grad_in_fp32: {}\n",
                      layout.zero == ZeroStage::kNone ? 0 : 1,
                      layout.precision == memory::NumberFormats::kBf16MixedFp32Grads);
  return text + nanotron_remarks(layout);
}

std::string deepspeed_config(const Workload& work, const Layout& layout) {
  Json config = {{"train_batch_size", work.global_batch},
                 {"train_micro_batch_size_per_gpu", layout.micro_batch},
                 {"gradient_accumulation_steps", micro_batches_of(work, layout)},
                 {"zero_optimization", deepspeed_zero(layout)},
                 {"bf16", {{"enabled", in_bf16(layout)}}},
                 {"data_types",
                  {{"grad_accum_dtype",
                    layout.precision == memory::NumberFormats::kBf16Mixed ? "bf16" : "fp32"}}},
                 {"activation_checkpointing",
                  {{"partition_activations", layout.recompute == Recompute::kFull && layout.tp > 1},
                   {"cpu_checkpointing", layout.offload_activations}}},
                 {"gradient_clipping", 1.0}};
  add_deepspeed_mesh(config, layout);
  const std::vector<std::string> remarks = deepspeed_remarks(layout);
  if (!remarks.empty()) config["remarks"] = remarks;
  return config.dump(2) + "\n";
}

}  // namespace ultra::planner
