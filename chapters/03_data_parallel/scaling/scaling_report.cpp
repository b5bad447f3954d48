#include "chapters/03_data_parallel/scaling/scaling_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "common/base/units.hpp"

namespace ultra::data_parallel {
namespace {

std::string_view to_string(BatchRule rule) {
  return rule == BatchRule::kGlobal ? "global" : "per-rank";
}

std::size_t largest_bucket_bytes(const ScalingReport& report) {
  std::size_t largest = 0;
  for (const Bucket& bucket : report.buckets) largest = std::max(largest, bucket.count);
  return largest * report.request.element_bytes;
}

std::string format_batch(const ScalingRequest& request) {
  std::string text =
      fmt::format("{} sequence{} of {} tokens per {}", format_count(request.batch),
                  request.batch == 1 ? "" : "s", format_count(request.seq_len),
                  request.batch_rule == BatchRule::kGlobal ? "step" : "replica and step");
  if (request.micro_batch > 0) {
    text += fmt::format(", {} per pass", format_count(request.micro_batch));
  }
  return text;
}

void format_point(const ScalingPoint& point, std::string& table) {
  fmt::format_to(
      std::back_inserter(table),
      "  {:>5}{:>6}{:>11} {:>11} {:>11} {:>11} {:>10} {:>11} {:>15} {:>12}{:>11.1f}%{:>8.2f}\n",
      point.dp, point.nodes, format_count(point.rank_batch), milliseconds(point.forward_seconds),
      milliseconds(point.backward_seconds), milliseconds(point.communication_seconds),
      milliseconds(point.exposed_seconds), milliseconds(point.step_seconds),
      format_rounded(point.tokens_per_second), format_rounded(point.tokens_per_second_per_rank),
      100.0 * point.efficiency, point.overlap_ratio);
}

/// Where the link becomes the bottleneck, and from how many tokens on it would not be.
std::string format_turning_point(const ScalingReport& report) {
  const ScalingPoint* bound = report.first_link_bound();
  if (bound == nullptr) {
    return "  The link is nowhere the bottleneck: the backward pass takes longer than all "
           "buckets.\n";
  }
  return fmt::format(
      "  From {} replicas on the link is the bottleneck: there, the last micro-batch would have to "
      "have {} tokens.\n",
      bound->dp, format_rounded(std::ceil(bound->tokens_to_hide)));
}

Json point_to_json(const ScalingPoint& point) {
  return {{"dp", point.dp},
          {"nodes", point.nodes},
          {"rank_batch", point.rank_batch},
          {"tokens_per_rank", point.tokens_per_rank},
          {"forward_seconds", point.forward_seconds},
          {"backward_seconds", point.backward_seconds},
          {"hiding_seconds", point.hiding_seconds},
          {"communication_seconds", point.communication_seconds},
          {"exposed_seconds", point.exposed_seconds},
          {"step_seconds", point.step_seconds},
          {"tokens_per_second", point.tokens_per_second},
          {"tokens_per_second_per_rank", point.tokens_per_second_per_rank},
          {"efficiency", point.efficiency},
          {"overlap_ratio", point.overlap_ratio},
          {"tokens_to_hide", point.tokens_to_hide},
          {"bus_bandwidth", point.bus_bandwidth}};
}

Json request_to_json(const ScalingReport& report) {
  const ScalingRequest& request = report.request;
  return {{"model", request.model.name},
          {"parameters", request.model.total()},
          {"machine", machine_to_json(request.machine, report.points.back().dp)},
          {"algorithm", request.algorithm},
          {"seq_len", request.seq_len},
          {"batch_rule", to_string(request.batch_rule)},
          {"batch", request.batch},
          {"micro_batch", request.micro_batch},
          {"element_bytes", request.element_bytes},
          {"peak_flops", request.peak_flops},
          {"mfu", request.mfu},
          {"bucket_bytes", request.bucket_bytes}};
}

Json link_to_json(const replay::Link& link) {
  return {{"latency", link.latency}, {"bandwidth", link.bandwidth}};
}

}  // namespace

std::string milliseconds(double seconds) { return fmt::format("{:.2f}", seconds * 1e3); }

std::string format_rounded(double count) {
  return format_count(static_cast<std::uint64_t>(std::llround(count)));
}

Json machine_to_json(const collectives::Topology& node, int ranks) {
  return {{"largest", machine_for(ranks, node).describe()},
          {"gpus_per_node", node.gpus_per_node},
          {"nics_per_node", node.nics_per_node},
          {"intra", link_to_json(node.intra)},
          {"inter", link_to_json(node.inter)},
          {"gamma", node.gamma},
          {"order", collectives::to_string(node.order)}};
}

std::string format_scaling(const ScalingReport& report) {
  const ScalingRequest& request = report.request;
  std::string table = fmt::format(
      "Prediction for {}, {} parameters, on up to {}\n"
      "  {}; {:g} TFLOP/s x {:g}\n"
      "  {} all-reduce of {} in {} bucket{}, the largest {}\n\n",
      request.model.name, format_count(request.model.total()),
      machine_for(report.points.back().dp, request.machine).describe(), format_batch(request),
      request.peak_flops / 1e12, request.mfu, request.algorithm,
      format_bytes(request.model.total() * request.element_bytes), report.buckets.size(),
      report.buckets.size() == 1 ? "" : "s", format_bytes(largest_bucket_bytes(report)));
  fmt::format_to(std::back_inserter(table),
                 "  {:>5}{:>6}{:>11} {:>11} {:>11} {:>11} {:>10} {:>11} {:>15} {:>12}{:>12}{:>8}\n",
                 "dp", "nodes", "batch/rank", "forward", "backward", "all-reduce", "exposed",
                 "step", "tokens/s", "per rank", "efficiency", "ratio");
  for (const ScalingPoint& point : report.points) format_point(point, table);
  table += '\n';
  table += format_turning_point(report);
  for (const SkippedPoint& skipped : report.skipped) {
    fmt::format_to(std::back_inserter(table), "  without {}: {}\n", skipped.dp, skipped.reason);
  }
  table +=
      "  Times in milliseconds; ratio = all-reduce / backward pass of the last micro-batch; "
      "efficiency: tokens per second and rank against one replica.\n"
      "  Left out: memory, the optimizer's update, links shared with others, slower ranks.\n";
  return table;
}

Json scaling_to_json(const ScalingReport& report) {
  Json json = request_to_json(report);
  json["buckets"] = {{"count", report.buckets.size()},
                     {"largest_bytes", largest_bucket_bytes(report)}};
  json["points"] = Json::array();
  for (const ScalingPoint& point : report.points) json["points"].push_back(point_to_json(point));
  json["first_link_bound_dp"] = nullptr;
  if (const ScalingPoint* bound = report.first_link_bound()) {
    json["first_link_bound_dp"] = bound->dp;
  }
  json["skipped"] = Json::array();
  for (const SkippedPoint& skipped : report.skipped) {
    json["skipped"].push_back({{"dp", skipped.dp}, {"reason", skipped.reason}});
  }
  return json;
}

}  // namespace ultra::data_parallel
