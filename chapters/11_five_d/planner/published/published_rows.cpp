#include "chapters/11_five_d/planner/published/published_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "build_config.hpp"
#include "chapters/11_five_d/planner/search/layout_search.hpp"
#include "common/base/errors.hpp"
#include "common/base/json_fields.hpp"
#include "common/base/numeric.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"

namespace ultra::planner {
namespace {

constexpr std::array<std::pair<std::string_view, SpeedUnit>, 6> kUnits = {
    {{"seconds", SpeedUnit::kSeconds},
     {"model_tflops", SpeedUnit::kModelTflops},
     {"causal_tflops", SpeedUnit::kCausalTflops},
     {"recomputed_tflops", SpeedUnit::kRecomputedTflops},
     {"mfu_percent", SpeedUnit::kMfuPercent},
     {"tokens_per_gpu_second", SpeedUnit::kTokensPerGpu}}};

const ModelShape& model_of(const JsonFields& fields) {
  const std::string name = fields.text("model");
  if (const ModelShape* model = find_model(name)) return *model;
  throw FileError(fmt::format("{}: no model is called {}.", fields.where(), in_quotes(name)));
}

const replay::Cluster& cluster_of(const JsonFields& fields) {
  const std::string name = fields.text("cluster");
  if (const replay::Cluster* cluster = replay::find_cluster(name)) return *cluster;
  throw FileError(fmt::format("{}: no cluster is called {}.", fields.where(), in_quotes(name)));
}

zero::ZeroStage zero_of(const JsonFields& fields) {
  const double stage = fields.number_or("zero", 0);
  for (const zero::ZeroStage one : zero::kZeroStages) {
    if (stage == zero::number_of(one)) return one;
  }
  throw FileError(
      fmt::format("{}: \"zero\" is {}. It must be 0, 1, 2 or 3.", fields.where(), stage));
}

Layout layout_of(const JsonFields& fields) {
  Layout layout{.dp = fields.count_or("dp", 1),
                .pp = fields.count_or("pp", 1),
                .cp = fields.count_or("cp", 1),
                .tp = fields.count_or("tp", 1),
                .ep = fields.count_or("ep", 1),
                .zero = zero_of(fields),
                .micro_batch = fields.count_or("micro_batch", 1),
                .recompute = memory::parse_recompute(fields.text_or("recompute", "none")),
                .sequence_parallel = fields.flag_or("sp", false),
                .offload = fields.flag_or("offload", false),
                .offload_activations = fields.flag_or("offload_activations", false)};
  layout.schedule = pipeline_parallel::parse_schedule_choice(fields.text_or("schedule", "1f1b"));
  layout.outermost =
      fields.flag_or("data_outermost", false) ? Outermost::kData : Outermost::kPipeline;
  return layout;
}

void read_speed(const JsonFields& fields, PublishedRow& row) {
  for (const auto& [key, unit] : kUnits) {
    if (!fields.has(key)) continue;
    row.unit = unit;
    row.speed = fields.number(key);
  }
  if (fields.has("memory_gib")) {
    row.memory_bytes = fields.number("memory_gib") * kGiB;
    row.reserved = fields.flag_or("reserved", false);
  }
}

}  // namespace

PublishedRow published_row(const JsonFields& fields) {
  PublishedRow row{.id = fields.text("id"),
                   .source = fields.text("source"),
                   .group = fields.text("group"),
                   .fitted = fields.flag_or("fitted", false),
                   .in_reference = !fields.flag_or("hold_out", false),
                   .question = {.work = {.model = model_of(fields),
                                         .seq_len = fields.count("seq"),
                                         .global_batch = fields.count("batch")},
                                .cluster = cluster_of(fields),
                                .software = find_software(fields.text("software"))},
                   .layout = layout_of(fields),
                   .best_micro_batch = !fields.has("micro_batch"),
                   .best_layout = fields.flag_or("best_layout", false),
                   .remark = fields.text_or("remark", "")};
  if (fields.has("gradient_bytes")) {
    row.question.software.exchanged_gradient_bytes = fields.number("gradient_bytes");
  }
  Software& software = row.question.software;
  software.fused_elementwise = fields.flag_or("fused_elementwise", software.fused_elementwise);
  software.overlaps_tensor = fields.flag_or("overlaps_tensor", software.overlaps_tensor);
  software.loss_bytes = fields.number_or("loss_bytes", software.loss_bytes);
  software.expandable_segments =
      fields.flag_or("expandable_segments", software.expandable_segments);
  software.fp8_products = fields.flag_or("fp8_products", software.fp8_products);
  read_speed(fields, row);
  if (const auto problem = why_impossible(row.question.work, row.layout)) {
    throw FileError(fmt::format("{}: {}.", fields.where(), *problem));
  }
  return row;
}

std::string_view unit_of(const PublishedRow& row) {
  if (!row.unit) return "";
  switch (*row.unit) {
    case SpeedUnit::kSeconds:
      return "s";
    case SpeedUnit::kModelTflops:
    case SpeedUnit::kCausalTflops:
    case SpeedUnit::kRecomputedTflops:
      return "TFLOP/s";
    case SpeedUnit::kMfuPercent:
      return "% MFU";
    case SpeedUnit::kTokensPerGpu:
      return "tokens/s";
  }
  return "";
}

namespace {

/// FLOP of a step as the unit counts them.
double counted_flop(const PublishedRow& row) {
  const Workload& work = row.question.work;
  const double per_token = model_flop_per_token(work.model, work.seq_len);
  if (row.unit == SpeedUnit::kCausalTflops) {
    return (per_token + 6 * multiplied_parameters(work.model)) / 2 * work.tokens();
  }
  if (row.unit != SpeedUnit::kRecomputedTflops) return per_token * work.tokens();
  const double head =
      6 * real(work.model.shape().hidden_size) * real(work.model.shape().vocab_size);
  return ((per_token - head) * 4 / 3 + head) * work.tokens();
}

double in_unit(const PublishedRow& row, double seconds) {
  const Workload& work = row.question.work;
  const double gpus = real(row.layout.gpus());
  constexpr double kTera = 1e12;
  switch (row.unit.value_or(SpeedUnit::kSeconds)) {
    case SpeedUnit::kSeconds:
      return seconds;
    case SpeedUnit::kModelTflops:
    case SpeedUnit::kCausalTflops:
    case SpeedUnit::kRecomputedTflops:
      return counted_flop(row) / seconds / gpus / kTera;
    case SpeedUnit::kMfuPercent:
      return 100 * counted_flop(row) / seconds / gpus / row.question.cluster.gpu.peak_flops;
    case SpeedUnit::kTokensPerGpu:
      return work.tokens() / seconds / gpus;
  }
  throw InternalError("a published speed has no unit");
}

/// The layout with the micro-batch that is fastest among those that fit.
Prediction fastest_micro_batch(const PublishedRow& row) {
  std::optional<Prediction> best;
  Layout layout = row.layout;
  constexpr std::size_t kMost = 16;
  for (layout.micro_batch = 1; layout.micro_batch <= kMost; layout.micro_batch *= 2) {
    if (why_impossible(row.question.work, layout)) continue;
    Prediction prediction = predict(row.question, layout);
    const bool fits = prediction.memory.total() <= row.question.cluster.gpu.memory_bytes;
    if (best && (!fits || prediction.step.total() >= best->step.total())) continue;
    best = std::move(prediction);
  }
  return *best;
}

/// The fastest layout of as many GPUs, with the schedules and stages of ZeRO that Megatron-LM has.
Prediction fastest_layout(const PublishedRow& row) {
  SearchSpace space{.gpus = row.layout.gpus(), .most_tp = row.layout.tp};
  space.schedules = {pipeline_parallel::ScheduleKind::kOneFOneB,
                     pipeline_parallel::ScheduleKind::kInterleaved};
  space.most_zero = zero::ZeroStage::kOptimizer;
  const SearchResult found = search_layouts(row.question, space, 1);
  if (found.best.empty()) {
    throw FileError(fmt::format("{}: no layout fits into {} GPUs.", row.id, space.gpus));
  }
  return found.best.front();
}

Prediction predict_row(const PublishedRow& row) {
  if (row.best_layout) return fastest_layout(row);
  return row.best_micro_batch ? fastest_micro_batch(row) : predict(row.question, row.layout);
}

}  // namespace

std::string published_rows_path() {
  return fmt::format("{}/chapters/11_five_d/planner/published/rows.json", build::kSourceDir);
}

std::vector<PublishedRow> read_published_rows(const std::string& path) {
  std::vector<PublishedRow> rows;
  const JsonFields file = JsonFields::of_file(path);
  for (const JsonFields& fields : file.objects("rows")) rows.push_back(published_row(fields));
  return rows;
}

ComparedRow compare(const PublishedRow& row) {
  ComparedRow compared{.row = row, .prediction = predict_row(row)};
  if (row.unit) {
    compared.predicted = in_unit(row, compared.prediction.step.total());
    const bool is_time = row.unit == SpeedUnit::kSeconds;
    compared.speed_ratio =
        is_time ? compared.predicted / row.speed : row.speed / compared.predicted;
  }
  if (row.memory_bytes) {
    const StageMemory& memory = compared.prediction.memory;
    compared.memory_ratio =
        (memory.tensors() +
         (row.reserved ? fragmented_bytes(row.question.software, row.layout, memory) : 0)) /
        *row.memory_bytes;
  }
  return compared;
}

double median_error(std::vector<double> ratios) {
  if (ratios.empty()) return 0;
  for (double& ratio : ratios) ratio = std::abs(ratio - 1);
  std::ranges::sort(ratios);
  const std::size_t middle = ratios.size() / 2;
  return ratios.size() % 2 == 1 ? ratios[middle] : (ratios[middle - 1] + ratios[middle]) / 2;
}

}  // namespace ultra::planner
