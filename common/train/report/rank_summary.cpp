#include "common/train/report/rank_summary.hpp"

#include <string>
#include <utility>

#include "common/base/json.hpp"

namespace ultra::train {

namespace {

constexpr const char* kTotal = "total";

void memory_to_json(const MemoryPeaks& memory, Json& json) {
  for (const MemoryCategory category : kMemoryCategories) {
    const std::string name(to_string(category));
    json["peak_bytes"][name] = memory.peak(category).bytes;
    json["peak_phase"][name] = memory.peak(category).phase;
    json["bytes_at_peak"][name] = memory.usage_at_peak()[category];
  }
  json["peak_bytes"][kTotal] = memory.peak_total().bytes;
  json["peak_phase"][kTotal] = memory.peak_total().phase;
}

MemoryPeaks memory_from(const Json& json) {
  const auto peak = [&](const std::string& name) {
    return MemoryPeak{.bytes = json["peak_bytes"][name].get<std::size_t>(),
                      .phase = json["peak_phase"][name].get<std::string>()};
  };
  MemoryPeaks::Categories categories;
  MemoryUsage usage_at_peak;
  for (const MemoryCategory category : kMemoryCategories) {
    const std::string name(to_string(category));
    const auto index = static_cast<std::size_t>(category);
    categories[index] = peak(name);
    usage_at_peak.bytes[index] = json["bytes_at_peak"][name].get<std::size_t>();
  }
  return {std::move(categories), peak(kTotal), usage_at_peak};
}

void traffic_to_json(const CommStats& stats, Json& json) {
  json["sent_bytes"] = Json::object();
  json["operations"] = Json::object();
  for (const OpKind kind : kDataOpKinds) {
    if (stats[kind].operations == 0) continue;
    const std::string name(to_string(kind));
    json["sent_bytes"][name] = stats[kind].sent_bytes;
    json["operations"][name] = stats[kind].operations;
  }
}

CommStats traffic_from(const Json& json) {
  CommStats stats;
  for (const OpKind kind : kDataOpKinds) {
    const std::string name(to_string(kind));
    if (!json["operations"].contains(name)) continue;
    stats[kind] = {.operations = json["operations"][name].get<std::size_t>(),
                   .sent_bytes = json["sent_bytes"][name].get<std::size_t>()};
  }
  return stats;
}

Json to_json(const StorageTraffic& traffic) {
  return {{"read_bytes", traffic.read_bytes},
          {"written_bytes", traffic.written_bytes},
          {"read_seconds", traffic.read_seconds},
          {"write_seconds", traffic.write_seconds},
          {"exposed_seconds", traffic.exposed_seconds}};
}

StorageTraffic storage_traffic_from(const Json& json) {
  return {.read_bytes = json["read_bytes"].get<std::size_t>(),
          .written_bytes = json["written_bytes"].get<std::size_t>(),
          .read_seconds = json["read_seconds"].get<double>(),
          .write_seconds = json["write_seconds"].get<double>(),
          .exposed_seconds = json["exposed_seconds"].get<double>()};
}

OffloadUse offload_from(const Json& json) {
  return {.stored_bytes = json["stored_bytes"].get<std::size_t>(),
          .optimizer = storage_traffic_from(json["optimizer"]),
          .weights = storage_traffic_from(json["weights"])};
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

Json to_json(const RankSummary& summary) {
  Json json = {{"rank", summary.rank}};
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

RankSummary rank_summary_from(const Json& json) {
  const auto seconds = [&](const char* of) { return json["seconds"][of].get<double>(); };
  RankSummary summary{.rank = json["rank"].get<int>(),
                      .device = json.contains("device") ? json["device"].get<std::string>() : "",
                      .memory = memory_from(json),
                      .reserved_bytes = json["reserved_bytes"].get<std::size_t>(),
                      .system_allocations = json["system_allocations"].get<std::size_t>(),
                      .seconds = {.compute = seconds("compute"),
                                  .idle = seconds("idle"),
                                  .forward_backward = seconds("forward_backward"),
                                  .optimizer = seconds("optimizer"),
                                  .total = seconds("total")},
                      .communication = traffic_from(json)};
  summary.communication.busy_seconds = seconds("communication");
  summary.communication.exposed_seconds = seconds("exposed_communication");
  if (json.contains("offload")) summary.offload = offload_from(json["offload"]);
  if (json.contains("counters")) {
    for (const auto& [name, sum] : json["counters"].members()) {
      summary.counters.add(name, sum.get<double>());
    }
  }
  return summary;
}

}  // namespace ultra::train
