#include "chapters/11_five_d/planner/techniques/technique_table.hpp"

#include <fmt/format.h>

#include "chapters/04_zero/zero_memory.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_volume.hpp"
#include "chapters/06_context_parallel/estimate/context_volume.hpp"
#include "chapters/07_pipeline_parallel/closed_forms/schedule_volume.hpp"
#include "chapters/08_expert_parallel/estimate/expert_volume.hpp"
#include "common/base/units.hpp"

namespace ultra::planner {
namespace {

using pipeline_parallel::ScheduleKind;
using zero::ZeroStage;

double real(std::size_t value) { return static_cast<double>(value); }

/// Of a ring of n ranks, what each sends of an array on the way to all others.
double ring_share(std::size_t n) { return real(n - 1) / real(n); }

/// A step as the closed forms of single chapters want it.
struct Step {
  const Question& question;
  const Layout& layout;
  std::size_t micro_batches = micro_batches_of(question.work, layout);
  std::size_t forwards = layout.recompute == memory::Recompute::kFull ? 2 : 1;
  double element = real(memory::activation_element_bytes(layout.precision));

  [[nodiscard]] const memory::TransformerShape& shape() const {
    return question.work.model.shape();
  }
  /// b s h of a micro-batch, in bytes.
  [[nodiscard]] double activation() const {
    return element * real(layout.micro_batch * question.work.seq_len) * real(shape().hidden_size);
  }
};

double data_bytes(const Step& step) {
  const Layout& layout = step.layout;
  const std::size_t ranks = layout.dp * layout.cp;
  if (ranks == 1) return 0;
  const double held =
      stage_parameters(step.question.work.model, layout, {step.shape().num_layers}, 0).total();
  const zero::SentElements sent =
      zero::sent_per_rank({.stage = layout.zero, .shards = static_cast<int>(ranks)},
                          static_cast<std::size_t>(held), step.micro_batches);
  const double gathers = layout.zero == ZeroStage::kNone         ? 0
                         : layout.zero == ZeroStage::kParameters ? 2 * real(step.micro_batches)
                                                                 : 1;
  const double weights = gathers * ring_share(ranks) * held;
  const double weight_bytes = real(memory::bytes_per_parameter(layout.precision).parameters);
  const bool mixed = layout.precision == memory::NumberFormats::kBf16MixedFp32Grads;
  const double gradient_bytes =
      mixed ? step.question.software.exchanged_gradient_bytes : weight_bytes;
  return weights * weight_bytes + (sent.total() - weights) * gradient_bytes;
}

double tensor_bytes(const Step& step) {
  using tensor_parallel::SequenceParallel;
  if (step.layout.tp == 1) return 0;
  const tensor_parallel::ActivationExchanges all = tensor_parallel::activation_exchanges(
      step.shape().num_layers,
      {.tp = static_cast<int>(step.layout.tp),
       .sequence_parallel =
           step.layout.sequence_parallel ? SequenceParallel::kOn : SequenceParallel::kOff},
      step.forwards);
  const double arrays = 2 * real(all.all_reduces) + real(all.all_gathers + all.reduce_scatters);
  return arrays * ring_share(step.layout.tp) * real(step.micro_batches) * step.activation();
}

double context_bytes(const Step& step) {
  using namespace context_parallel;
  if (step.layout.cp == 1) return 0;
  const memory::TransformerShape& s = step.shape();
  const AttentionShape shape{.batch = step.layout.micro_batch,
                             .tokens = step.question.work.seq_len / step.layout.cp,
                             .heads = s.num_heads,
                             .kv_heads = s.num_kv_heads,
                             .head_dim = s.hidden_size / s.num_heads};
  const MethodChoice choice{.method = ContextMethod::kAllGather,
                            .cp = static_cast<int>(step.layout.cp)};
  SentByKind sent = sent_forward(shape, choice).times(step.forwards);
  sent += sent_backward(shape, choice);
  return step.element * real(sent.total()) * real(s.num_layers * step.micro_batches);
}

double pipeline_bytes(const Step& step) {
  const std::size_t stages = step.layout.pp;
  if (stages == 1) return 0;
  const std::size_t messages = pipeline_parallel::messages_of(
      step.layout.schedule, {.stages = stages, .micro_batches = step.micro_batches});
  return real(messages) * step.activation() / real(stages);
}

double expert_bytes(const Step& step) {
  using namespace expert_parallel;
  if (step.layout.ep == 1) return 0;
  const MoeModel& model = step.question.work.model.layers;
  const double tokens =
      real(step.micro_batches * step.layout.micro_batch * step.question.work.seq_len);
  return real(model.shape.num_layers - model.dense_blocks) *
         exchanged_bytes(even_remote_rows(model.moe, tokens, step.layout.ep), step.micro_batches,
                         step.forwards, model.shape.hidden_size, model.moe.num_experts,
                         step.layout.ep, static_cast<std::size_t>(step.element));
}

/// Seconds of a step in which exchanges keep a rank from working.
double waits_of(const Prediction& one) {
  return one.passes.tensor_exchange + one.passes.context_exchange + one.passes.expert_exchange +
         one.step.messages + one.step.data;
}

Question without_hiding(Question question) {
  Software& software = question.software;
  software.overlaps_data = software.overlaps_tensor = software.overlaps_pipeline = false;
  software.overlaps_experts = software.overlaps_weight_gradients = false;
  return question;
}

struct Technique {
  const char* name;
  const char* beside;
  Layout layout;
};

std::vector<Technique> techniques_of(const Question& question, std::size_t n) {
  const auto pipeline = [&](ScheduleKind kind) {
    return Layout{.pp = n, .zero = ZeroStage::kNone, .schedule = {.kind = kind}};
  };
  const Layout replicas{.dp = n, .zero = ZeroStage::kNone};
  const auto sharded = [&](ZeroStage stage) { return Layout{.dp = n, .zero = stage}; };
  Layout again = replicas;
  again.recompute = memory::Recompute::kFull;
  Layout tensor{.tp = n, .zero = ZeroStage::kNone, .sequence_parallel = false};
  std::vector<Technique> all = {
      {"dp", "the last backward pass", replicas},
      {"ZeRO-1", "the last backward, the first forward pass", sharded(ZeroStage::kOptimizer)},
      {"ZeRO-2", "each backward, the first forward pass", sharded(ZeroStage::kGradients)},
      {"ZeRO-3", "the blocks before and after", sharded(ZeroStage::kParameters)},
      {"dp, recompute full", "the last backward pass", again},
      {"tp", "weight gradients, of one exchange in two backward", tensor}};
  tensor.sequence_parallel = true;
  all.push_back({"tp with sp", "weight gradients, of one exchange in two backward", tensor});
  all.push_back({"cp", "attention; gradients as dp", {.cp = n, .zero = ZeroStage::kNone}});
  all.push_back({"pp, afab", "passes of other micro-batches", pipeline(ScheduleKind::kAfab)});
  all.push_back({"pp, 1f1b", "passes of other micro-batches", pipeline(ScheduleKind::kOneFOneB)});
  all.push_back({"pp, zero-bubble-h1", "passes of other micro-batches",
                 pipeline(ScheduleKind::kZeroBubbleH1)});
  if (question.work.model.has_experts()) {
    all.push_back({"ep",
                   "another micro-batch, where the program has two under way",
                   {.dp = n, .ep = n, .zero = ZeroStage::kNone}});
  }
  return all;
}

}  // namespace

double sent_bytes(const Question& question, const Layout& layout) {
  const Step step{.question = question, .layout = layout};
  return data_bytes(step) + tensor_bytes(step) + context_bytes(step) + pipeline_bytes(step) +
         expert_bytes(step);
}

std::vector<TechniqueRow> technique_rows(const Question& question, std::size_t ranks,
                                         memory::NumberFormats precision) {
  std::vector<TechniqueRow> rows;
  for (Technique& one : techniques_of(question, ranks)) {
    one.layout.precision = precision;
    TechniqueRow row{.name = one.name, .beside = one.beside};
    if (const auto problem = why_impossible(question.work, one.layout)) {
      row.impossible = *problem;
    } else {
      row.prediction = predict(question, one.layout);
      row.sent_bytes = sent_bytes(question, one.layout);
      row.waits = waits_of(*row.prediction);
      row.unhidden = waits_of(predict(without_hiding(question), one.layout));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string format_techniques(const Question& question, std::size_t ranks,
                              const std::vector<TechniqueRow>& rows) {
  const auto bytes = [](double value) { return format_bytes(static_cast<std::uint64_t>(value)); };
  std::string text = fmt::format(
      "Each technique alone on {} x {}: {}, {} sequences of {} tokens a step, micro-batch 1, as {} "
      "trains.\nMemory of the rank that needs most; what a rank sends in a step, and waits for: "
      "hidden, and if nothing were.\n\n",
      ranks, question.cluster.gpu.name, question.work.model.shape().name,
      question.work.global_batch, question.work.seq_len, question.software.name);
  text += fmt::format("  {:<19}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}{:>10}{:>10}  {}\n", "",
                      "weights", "gradients", "optimizer", "activations", "sent", "waits",
                      "unhidden", "bubble", "hides behind");
  for (const TechniqueRow& row : rows) {
    if (!row.prediction) {
      text += fmt::format("  {:<19} cannot be: {}\n", row.name, row.impossible);
      continue;
    }
    const StageMemory& memory = row.prediction->memory;
    text += fmt::format("  {:<19}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}{:>10}{:>10}  {}\n", row.name,
                        bytes(memory.parameters), bytes(memory.gradients), bytes(memory.optimizer),
                        bytes(memory.activations + memory.transient), bytes(row.sent_bytes),
                        format_seconds(row.waits), format_seconds(row.unhidden),
                        format_seconds(row.prediction->step.bubble), row.beside);
  }
  return text;
}

Json techniques_to_json(const std::vector<TechniqueRow>& rows) {
  Json all = Json::array();
  for (const TechniqueRow& row : rows) {
    Json one = {{"technique", row.name}, {"hides_behind", row.beside}};
    if (row.prediction) {
      const StageMemory& memory = row.prediction->memory;
      one.update({{"parameters", memory.parameters},
                  {"gradients", memory.gradients},
                  {"optimizer", memory.optimizer},
                  {"activations", memory.activations + memory.transient},
                  {"sent_bytes", row.sent_bytes},
                  {"waits", row.waits},
                  {"unhidden", row.unhidden},
                  {"bubble", row.prediction->step.bubble},
                  {"step_seconds", row.prediction->step.total()}});
    } else {
      one["impossible"] = row.impossible;
    }
    all.push_back(one);
  }
  return all;
}

}  // namespace ultra::planner
