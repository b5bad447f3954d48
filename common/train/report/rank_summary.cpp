#include "common/train/report/rank_summary.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace ultra::train {

using nlohmann::ordered_json;

namespace {

constexpr const char* kTotal = "total";

void memory_to_json(const MemoryPeaks& memory, ordered_json& json) {
  for (const MemoryCategory category : kMemoryCategories) {
    const std::string name(to_string(category));
    json["peak_bytes"][name] = memory.peak(category).bytes;
    json["peak_phase"][name] = memory.peak(category).phase;
    json["bytes_at_peak"][name] = memory.usage_at_peak()[category];
  }
  json["peak_bytes"][kTotal] = memory.peak_total().bytes;
  json["peak_phase"][kTotal] = memory.peak_total().phase;
}

MemoryPeaks memory_from(const ordered_json& json) {
  const auto peak = [&](const std::string& name) {
    return MemoryPeak{.bytes = json.at("peak_bytes").at(name),
                      .phase = json.at("peak_phase").at(name)};
  };
  MemoryPeaks::Categories categories;
  MemoryUsage usage_at_peak;
  for (const MemoryCategory category : kMemoryCategories) {
    const std::string name(to_string(category));
    const auto index = static_cast<std::size_t>(category);
    categories[index] = peak(name);
    usage_at_peak.bytes[index] = json.at("bytes_at_peak").at(name);
  }
  return {std::move(categories), peak(kTotal), usage_at_peak};
}

void traffic_to_json(const CommStats& stats, ordered_json& json) {
  json["sent_bytes"] = ordered_json::object();
  json["operations"] = ordered_json::object();
  for (const OpKind kind : kDataOpKinds) {
    if (stats[kind].operations == 0) continue;
    const std::string name(to_string(kind));
    json["sent_bytes"][name] = stats[kind].sent_bytes;
    json["operations"][name] = stats[kind].operations;
  }
}

CommStats traffic_from(const ordered_json& json) {
  CommStats stats;
  for (const OpKind kind : kDataOpKinds) {
    const std::string name(to_string(kind));
    if (!json.at("operations").contains(name)) continue;
    stats[kind] = {.operations = json.at("operations").at(name),
                   .sent_bytes = json.at("sent_bytes").at(name)};
  }
  return stats;
}

ordered_json to_json(const StorageTraffic& traffic) {
  return {{"read_bytes", traffic.read_bytes},
          {"written_bytes", traffic.written_bytes},
          {"read_seconds", traffic.read_seconds},
          {"write_seconds", traffic.write_seconds},
          {"exposed_seconds", traffic.exposed_seconds}};
}

StorageTraffic storage_traffic_from(const ordered_json& json) {
  return {.read_bytes = json.at("read_bytes"),
          .written_bytes = json.at("written_bytes"),
          .read_seconds = json.at("read_seconds"),
          .write_seconds = json.at("write_seconds"),
          .exposed_seconds = json.at("exposed_seconds")};
}

OffloadUse offload_from(const ordered_json& json) {
  return {.stored_bytes = json.at("stored_bytes"),
          .optimizer = storage_traffic_from(json.at("optimizer")),
          .weights = storage_traffic_from(json.at("weights"))};
}

}  // namespace

MemoryPeaks::MemoryPeaks(const MemoryTracker& tracker)
    : total_(tracker.peak_total()), usage_at_peak_(tracker.usage_at_peak()) {
  for (const MemoryCategory category : kMemoryCategories) {
    categories_[static_cast<std::size_t>(category)] = tracker.peak(category);
  }
}

MemoryPeaks::MemoryPeaks(Categories categories, MemoryPeak total, const MemoryUsage& usage_at_peak)
    : categories_(std::move(categories)), total_(std::move(total)), usage_at_peak_(usage_at_peak) {}

ordered_json to_json(const RankSummary& summary) {
  ordered_json json = {{"rank", summary.rank}};
  if (!summary.device.empty()) json["device"] = summary.device;
  memory_to_json(summary.memory, json);
  json["reserved_bytes"] = summary.reserved_bytes;
  json["system_allocations"] = summary.system_allocations;
  traffic_to_json(summary.communication, json);
  json["seconds"] = {{"compute", summary.seconds.compute},
                     {"communication", summary.communication.busy_seconds},
                     {"exposed_communication", summary.communication.exposed_seconds},
                     {"idle", summary.seconds.idle},
                     {"forward_backward", summary.seconds.forward_backward},
                     {"optimizer", summary.seconds.optimizer},
                     {"total", summary.seconds.total}};
  if (summary.offload.stored_bytes > 0) {
    json["offload"] = {{"stored_bytes", summary.offload.stored_bytes},
                       {"optimizer", to_json(summary.offload.optimizer)},
                       {"weights", to_json(summary.offload.weights)}};
  }
  for (const auto& [name, sum] : summary.counters.sums()) json["counters"][name] = sum;
  return json;
}

RankSummary rank_summary_from(const ordered_json& json) {
  const ordered_json& seconds = json.at("seconds");
  RankSummary summary{.rank = json.at("rank"),
                      .device = json.value("device", ""),
                      .memory = memory_from(json),
                      .reserved_bytes = json.at("reserved_bytes"),
                      .system_allocations = json.at("system_allocations"),
                      .seconds = {.compute = seconds.at("compute"),
                                  .idle = seconds.at("idle"),
                                  .forward_backward = seconds.at("forward_backward"),
                                  .optimizer = seconds.at("optimizer"),
                                  .total = seconds.at("total")},
                      .communication = traffic_from(json)};
  summary.communication.busy_seconds = seconds.at("communication");
  summary.communication.exposed_seconds = seconds.at("exposed_communication");
  if (json.contains("offload")) summary.offload = offload_from(json.at("offload"));
  if (json.contains("counters")) {
    for (const auto& [name, sum] : json.at("counters").items()) summary.counters.add(name, sum);
  }
  return summary;
}

}  // namespace ultra::train
