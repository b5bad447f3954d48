#include <fmt/format.h>

#include <string_view>

#include "chapters/11_five_d/planner/export/exported_options.hpp"

namespace ultra::planner {
namespace {

using memory::Recompute;
using pipeline_parallel::ScheduleKind;
using zero::ZeroStage;

/// PyTorch's name of a schedule; empty: it has none like it.
std::string_view pytorch_name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kAfab:
      return "GPipe";
    case ScheduleKind::kOneFOneB:
      return "1F1B";
    case ScheduleKind::kInterleaved:
      return "Interleaved1F1B";
    case ScheduleKind::kZbV:
      return "ZBVZeroBubble";
    case ScheduleKind::kDualPipeV:
      return "DualPipeV";
    default:
      return "";
  }
}

std::string remarks_on(const Layout& layout) {
  std::string remarks;
  const auto add = [&](std::string_view text) { remarks += fmt::format("# {}\n", text); };
  if (layout.zero == ZeroStage::kOptimizer) {
    add("torchtitan has no ZeRO-1: weights that stay gathered beside sharded gradients are "
        "ZeRO-2.");
  }
  if (layout.pp > 1 && pytorch_name_of(layout.schedule.kind).empty()) {
    add(fmt::format("PyTorch has no schedule {}: it runs 1F1B.", layout.schedule.str()));
  }
  if (layout.recompute == Recompute::kSelective) {
    add("SelectiveAC computes every second product again, beside what is planned to be.");
  }
  if (layout.cp > 1 && layout.context_method == context_parallel::ContextMethod::kUlysses) {
    add("torchtitan has no Ulysses: its context parallelism passes keys and values on.");
  }
  if (layout.offload && layout.zero != ZeroStage::kNone) {
    add("enable_cpu_offload leaves weights and gradients in the host's memory as well.");
  }
  if (layout.offload_activations) {
    add("torchtitan leaves no activations in the host's memory: this may not fit.");
  }
  if (layout.copies > 1 && layout.dp % layout.copies != 0) {
    add("torchtitan's copies are replicas of whole sequences: cp would have to be smaller.");
  }
  if (layout.outermost == Outermost::kData && layout.pp > 1) {
    add("Stages are outermost there, replicas here.");
  }
  return remarks;
}

/// Assignments to the fields of a configuration.
class Assignments {
 public:
  explicit Assignments(std::string_view section) : section_(section) {}
  template <class T>
  void set(std::string_view field, const T& value) {
    text_ += fmt::format("    config.{}.{} = {}\n", section_, field, value);
  }
  void set(std::string_view field, bool value) { set(field, value ? "True" : "False"); }
  void set_text(std::string_view field, std::string_view value) {
    set(field, fmt::format("\"{}\"", value));
  }
  [[nodiscard]] const std::string& str() const { return text_; }

 private:
  std::string_view section_;
  std::string text_;
};

/// Blocks of a stage. Where the tables take a block's place each, so they do there.
void set_stages(Assignments& parallelism, const Workload& work, const Layout& layout) {
  const ScheduleKind kind = layout.schedule.kind;
  const std::string_view name = pytorch_name_of(kind);
  parallelism.set_text("pipeline_parallel_schedule", name.empty() ? "1F1B" : name);
  parallelism.set("num_pp_microbatches", micro_batches_of(work, layout));
  const std::size_t layers = work.model.shape().num_layers;
  const std::size_t parts = name.empty() ? layout.pp : layout.pp * layout.schedule.chunks();
  const std::size_t tables = layers % parts == 0 ? 0 : 1;
  parallelism.set("pipeline_parallel_first_stage_less_layers", tables);
  parallelism.set("pipeline_parallel_last_stage_less_layers", tables);
  const std::size_t places = layers + 2 * tables;
  if (places % parts == 0) parallelism.set("pipeline_parallel_layers_per_stage", places / parts);
}

Assignments parallelism_of(const Workload& work, const Layout& layout) {
  Assignments parallelism("parallelism");
  const bool shards = layout.zero != ZeroStage::kNone;
  const std::size_t copies = shards ? layout.copies : layout.dp;
  parallelism.set("data_parallel_replicate_degree", copies);
  parallelism.set("data_parallel_shard_degree", layout.dp / copies);
  parallelism.set_text("fsdp_reshard_after_forward",
                       zero::shards_parameters(layout.zero) ? "always" : "never");
  parallelism.set("tensor_parallel_degree", layout.tp);
  if (layout.tp > 1) parallelism.set("enable_sequence_parallel", layout.sequence_parallel);
  parallelism.set("context_parallel_degree", layout.cp);
  if (work.model.has_experts()) parallelism.set("expert_parallel_degree", layout.ep);
  parallelism.set("pipeline_parallel_degree", layout.pp);
  if (layout.pp > 1) set_stages(parallelism, work, layout);
  return parallelism;
}

}  // namespace

std::string torchtitan_config(const Workload& work, const Layout& layout) {
  Assignments training("training");
  training.set("max_context_length", work.seq_len);
  training.set("num_tokens_per_microbatch_per_dp_rank", layout.micro_batch * work.seq_len);
  training.set("num_tokens_per_train_step", work.global_batch * work.seq_len);
  if (layout.offload && layout.zero != ZeroStage::kNone) training.set("enable_cpu_offload", true);
  const char* again = layout.recompute == Recompute::kFull        ? "FullAC.Config()"
                      : layout.recompute == Recompute::kSelective ? "SelectiveAC.Config()"
                                                                  : "None";
  return fmt::format(
      "{}def planned() -> Trainer.Config:\n    config = your_model()\n{}{}"
      "    config.activation_checkpoint = {}\n    return config\n",
      remarks_on(layout), training.str(), parallelism_of(work, layout).str(), again);
}

}  // namespace ultra::planner
