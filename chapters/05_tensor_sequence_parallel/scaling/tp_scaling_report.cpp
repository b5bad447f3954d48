#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "chapters/03_data_parallel/scaling/scaling_model.hpp"
#include "chapters/03_data_parallel/scaling/scaling_report.hpp"
#include "common/base/units.hpp"

namespace ultra::tensor_parallel {
namespace {

using data_parallel::format_rounded;
using data_parallel::milliseconds;

std::string_view sequence_parallel_word(SequenceParallel sequence_parallel) {
  return sequence_parallel == SequenceParallel::kOn ? "on" : "off";
}

bool has_published(const TpScalingReport& report) {
  return std::ranges::any_of(
      report.points, [](const TpScalingPoint& point) { return point.published.has_value(); });
}

/// Of the measured numbers, as TpScalingPoint::ratio_to_previous of the predicted.
std::optional<double> published_ratio(const TpScalingReport& report, std::size_t index) {
  if (index == 0) return std::nullopt;
  const std::optional<PlaybookFigure>& before = report.points[index - 1].published;
  const std::optional<PlaybookFigure>& now = report.points[index].published;
  if (!before || !now) return std::nullopt;
  return now->tokens_per_second_per_rank / before->tokens_per_second_per_rank;
}

/// Predicted over measured, less 1.
std::optional<double> error_of(const TpScalingPoint& point) {
  if (!point.published) return std::nullopt;
  return point.tokens_per_second_per_rank / point.published->tokens_per_second_per_rank - 1.0;
}

/// A change in percent: 0.6 is "-40.0%".
std::string change(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:+.1f}%", 100.0 * (*ratio - 1.0)) : "-";
}

std::string format_head(const TpScalingReport& report) {
  const TpScalingRequest& request = report.request;
  return fmt::format(
      "Prediction for {}, {} parameters, on up to {}\n"
      "  sequences of {} tokens; sequence parallelism {}; {} exchanges; hidden: {}\n"
      "  products {:g} TFLOP/s x {:g}, memory {:g} GB/s\n\n",
      request.model.name, format_count(memory::parameter_count(request.model)),
      data_parallel::machine_for(report.points.back().tp, request.machine).describe(),
      format_count(request.seq_len), sequence_parallel_word(request.sequence_parallel),
      to_string(request.algorithm), to_string(request.hide), request.peak_flops / 1e12, request.mfu,
      request.memory_bandwidth / 1e9);
}

void format_points(const TpScalingReport& report, std::string& table) {
  const bool published = has_published(report);
  const auto out = std::back_inserter(table);
  fmt::format_to(out, "  {:>4}{:>6}{:>8}{:>10}{:>13}{:>11}{:>10}{:>7}{:>14}{:>10}{:>13}", "tp",
                 "nodes", "batch", "products", "elementwise", "exchanges", "exposed", "share",
                 "tokens/s/GPU", "change", "in one node");
  if (published) fmt::format_to(out, "{:>12}{:>10}{:>8}", "published", "change", "off by");
  table += '\n';
  for (std::size_t i = 0; i < report.points.size(); ++i) {
    const TpScalingPoint& point = report.points[i];
    fmt::format_to(
        out, "  {:>4}{:>6}{:>8}{:>10}{:>13}{:>11}{:>10}{:>6.1f}%{:>14}{:>10}{:>13}", point.tp,
        point.nodes, point.micro_batch, milliseconds(point.product_seconds),
        milliseconds(point.elementwise_seconds), milliseconds(point.communication_seconds),
        milliseconds(point.exposed_seconds), 100.0 * point.communication_share,
        format_rounded(point.tokens_per_second_per_rank), change(point.ratio_to_previous),
        format_rounded(point.one_node_tokens_per_second_per_rank));
    if (published) {
      const std::optional<double> error = error_of(point);
      fmt::format_to(
          out, "{:>12}{:>10}{:>8}",
          point.published ? format_rounded(point.published->tokens_per_second_per_rank) : "-",
          change(published_ratio(report, i)),
          error ? fmt::format("{:+.1f}%", 100.0 * *error) : "-");
    }
    table += '\n';
  }
}

/// What happens where the first ranks sit on another node.
std::string format_border(const TpScalingReport& report) {
  const TpScalingPoint* across = report.first_across_nodes();
  if (across == nullptr) return "  All ranks are in one node.\n";
  const auto bytes = [](double value) {
    return format_bytes(static_cast<std::uint64_t>(std::llround(value)));
  };
  return fmt::format(
      "  From {} ranks on exchanges leave the node: there a rank sends {} inside it and {} across, "
      "and is at {:.0f}% of what it would do in one node.\n",
      across->tp, bytes(across->intra_bytes), bytes(across->inter_bytes),
      100.0 * across->tokens_per_second_per_rank / across->one_node_tokens_per_second_per_rank);
}

Json request_to_json(const TpScalingReport& report) {
  const TpScalingRequest& request = report.request;
  return {{"model", request.model.name},
          {"parameters", memory::parameter_count(request.model)},
          {"machine", data_parallel::machine_to_json(request.machine, report.points.back().tp)},
          {"seq_len", request.seq_len},
          {"sequence_parallel", sequence_parallel_word(request.sequence_parallel)},
          {"hide", to_string(request.hide)},
          {"algorithm", to_string(request.algorithm)},
          {"element_bytes", request.element_bytes},
          {"peak_flops", request.peak_flops},
          {"mfu", request.mfu},
          {"memory_bandwidth", request.memory_bandwidth}};
}

Json point_to_json(const TpScalingReport& report, std::size_t index) {
  const TpScalingPoint& point = report.points[index];
  Json json = {{"tp", point.tp},
               {"nodes", point.nodes},
               {"micro_batch", point.micro_batch},
               {"product_seconds", point.product_seconds},
               {"elementwise_seconds", point.elementwise_seconds},
               {"communication_seconds", point.communication_seconds},
               {"exposed_seconds", point.exposed_seconds},
               {"intra_bytes", point.intra_bytes},
               {"inter_bytes", point.inter_bytes},
               {"step_seconds", point.step_seconds},
               {"tokens_per_second_per_rank", point.tokens_per_second_per_rank},
               {"one_node_tokens_per_second_per_rank", point.one_node_tokens_per_second_per_rank},
               {"communication_share", point.communication_share},
               {"ratio_to_previous", point.ratio_to_previous},
               {"published", nullptr}};
  if (point.published) {
    json["published"] = {
        {"tokens_per_second_per_rank", point.published->tokens_per_second_per_rank},
        {"ratio_to_previous", published_ratio(report, index)},
        {"prediction_error", error_of(point)}};
  }
  return json;
}

}  // namespace

std::string format_tp_scaling(const TpScalingReport& report) {
  std::string table = format_head(report);
  format_points(report, table);
  table += '\n';
  table += format_border(report);
  if (has_published(report)) {
    fmt::format_to(
        std::back_inserter(table),
        "  published: {}. Assumed here: its model's dimensions, the MFU, and how exchanges "
        "cross nodes (compare --scale-tp-algorithm).\n",
        kPlaybookSource);
  }
  table +=
      "  Times in milliseconds, of one micro-batch forward and backward; change: against the row "
      "above; in one node: tokens/s/GPU if a node had as many GPUs.\n"
      "  Left out: memory, the optimizer's update, products that reach less as their parts shrink, "
      "links shared with others.\n";
  return table;
}

Json tp_scaling_to_json(const TpScalingReport& report) {
  Json json = request_to_json(report);
  json["points"] = Json::array();
  for (std::size_t i = 0; i < report.points.size(); ++i) {
    json["points"].push_back(point_to_json(report, i));
  }
  json["first_across_nodes_tp"] = nullptr;
  if (const TpScalingPoint* across = report.first_across_nodes()) {
    json["first_across_nodes_tp"] = across->tp;
  }
  json["published_source"] = nullptr;
  if (has_published(report)) json["published_source"] = kPlaybookSource;
  return json;
}

}  // namespace ultra::tensor_parallel
