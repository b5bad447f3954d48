#include "chapters/11_five_d/planner/export/exported_options.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace ultra::planner {
namespace {

using memory::Recompute;
using nlohmann::ordered_json;
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

 private:
  std::vector<std::string> options_;
};

bool in_bf16(const Layout& layout) {
  return layout.precision == memory::Precision::kBf16Mixed ||
         layout.precision == memory::Precision::kBf16MixedFp32Grads;
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
  lines.add("--num-experts", work.model.layers.moe.num_experts);
  lines.add("--moe-router-topk", work.model.layers.moe.top_k);
}

void add_megatron_recompute(OptionLines& lines, const Layout& layout) {
  if (layout.recompute == Recompute::kSelective) lines.add("--recompute-activations");
  if (layout.recompute != Recompute::kFull) return;
  lines.add("--recompute-granularity full");
  lines.add("--recompute-method uniform");
  lines.add("--recompute-num-layers 1");
}

std::string megatron_remarks(const Layout& layout) {
  std::string remarks;
  const ScheduleKind kind = layout.schedule.kind;
  if (layout.pp > 1 && kind != ScheduleKind::kOneFOneB && kind != ScheduleKind::kInterleaved) {
    remarks +=
        fmt::format("# Megatron-LM has no schedule {}: it runs 1f1b.\n", layout.schedule.str());
  }
  if (layout.outermost == Outermost::kData) {
    remarks += "# Ranks are laid out tp, cp, pp, dp here: --use-tp-pp-dp-mapping.\n";
  }
  return remarks;
}

const char* megatron_name_of(context_parallel::ContextMethod method) {
  using context_parallel::ContextMethod;
  if (method == ContextMethod::kAllGather) return "all_gather";
  return method == ContextMethod::kUlysses ? "a2a" : "p2p";
}

ordered_json deepspeed_zero(const Layout& layout) {
  ordered_json zero = {{"stage", zero::number_of(layout.zero)},
                       {"overlap_comm", true},
                       {"contiguous_gradients", true}};
  if (layout.offload) zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  return zero;
}

}  // namespace

std::string book_flags(const Workload& work, const Layout& layout) {
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
  if (layout.offload) lines.add("--offload", "optimizer");
  if (layout.recompute != Recompute::kNone) {
    lines.add("--recompute", memory::to_string(layout.recompute));
  }
  lines.add("--seq", work.seq_len);
  lines.add("--global-batch", work.global_batch);
  lines.add("--micro-batch", layout.micro_batch);
  return lines.str();
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
  switch (layout.zero) {
    case ZeroStage::kNone:
      break;
    case ZeroStage::kOptimizer:
      lines.add("--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather");
      break;
    case ZeroStage::kGradients:
    case ZeroStage::kParameters:
      lines.add("--use-torch-fsdp2");
      break;
  }
  if (layout.cp > 1) lines.add("--cp-comm-type", megatron_name_of(layout.context_method));
  if (layout.offload) lines.add("--optimizer-cpu-offload");
  if (layout.offload_activations) {
    lines.add("--cpu-offloading-num-layers", work.model.shape().num_layers / layout.pp);
  }
  add_megatron_recompute(lines, layout);
  if (in_bf16(layout)) lines.add("--bf16");
  if (layout.outermost == Outermost::kData) lines.add("--use-tp-pp-dp-mapping");
  return megatron_remarks(layout) + lines.str();
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
                      layout.precision == memory::Precision::kBf16MixedFp32Grads);
  if (number_of(layout.zero) > 1) {
    text += fmt::format("# nanotron has no {}: its optimizer is sharded only.\n",
                        zero::name_of(layout.zero));
  }
  return text;
}

std::string deepspeed_config(const Workload& work, const Layout& layout) {
  const ordered_json config = {
      {"train_batch_size", work.global_batch},
      {"train_micro_batch_size_per_gpu", layout.micro_batch},
      {"gradient_accumulation_steps", micro_batches_of(work, layout)},
      {"zero_optimization", deepspeed_zero(layout)},
      {"bf16", {{"enabled", in_bf16(layout)}}},
      {"data_types",
       {{"grad_accum_dtype", layout.precision == memory::Precision::kBf16Mixed ? "bf16" : "fp32"}}},
      {"activation_checkpointing",
       {{"partition_activations", layout.recompute == Recompute::kFull && layout.tp > 1},
        {"cpu_checkpointing", layout.offload_activations}}},
      {"gradient_clipping", 1.0}};
  return config.dump(2) + "\n";
}

}  // namespace ultra::planner
