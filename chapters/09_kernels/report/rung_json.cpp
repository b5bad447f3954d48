#include "chapters/09_kernels/report/rung_json.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace ultra::ladders {
namespace {

using simt::AccessKind;
using simt::Report;
using simt::Site;

constexpr std::array kKinds{AccessKind::kGlobalLoad,   AccessKind::kGlobalStore,
                            AccessKind::kGlobalAtomic, AccessKind::kSharedLoad,
                            AccessKind::kSharedStore,  AccessKind::kSharedAtomic,
                            AccessKind::kBranch};

// "global load" -> "global_load", "WRONG" -> "wrong".
std::string key_of(const char* words) {
  std::string key = words;
  std::ranges::transform(key, key.begin(), [](char letter) {
    return letter == ' ' ? '_' : static_cast<char>(std::tolower(letter));
  });
  return key;
}

std::string key_of(AccessKind kind) { return key_of(simt::name_of(kind)); }

Json sums(const Site& site) {
  return {{"requests", site.requests},     {"lanes", site.lanes},
          {"sectors", site.sectors},       {"bytes", site.bytes},
          {"wavefronts", site.wavefronts}, {"ideal_wavefronts", site.ideal_wavefronts},
          {"divergent", site.divergent}};
}

Json site_json(const Site& site) {
  Json json = {
      {"file", site.file}, {"line", site.line}, {"kind", key_of(site.kind)}, {"size", site.size}};
  json.update(sums(site));
  return json;
}

Json array_of(const simt::Extents& extents) { return {extents.x, extents.y, extents.z}; }

void add_counters(Json& json, const RungRun& run) {
  const Report& report = run.outcome.report;
  json["launches"] = Json::array();
  for (const simt::Launched& launched : report.launches) {
    json["launches"].push_back({{"kernel", launched.kernel},
                                {"grid", array_of(launched.grid)},
                                {"block", array_of(launched.block)}});
  }
  json["moved_bytes"] = run.moved_bytes();
  for (const AccessKind kind : kKinds) {
    json["totals"][key_of(kind)] = sums(report.total(kind));
  }
  json["sites"] = Json::array();
  for (const Site& site : report.sites) {
    json["sites"].push_back(site_json(site));
  }
  for (const auto& [name, value] : report.metrics()) {
    json["metrics"][name] = value;
  }
}

void add_times(Json& json, const RungRun& run, Limit limit, const Cost& cost,
               const Ceiling* ceiling) {
  if (run.outcome.seconds.empty()) {
    return;
  }
  const double work = limited_work(limit, cost);
  const RateUnit unit = rate_unit(limit);
  json["seconds"] = run.outcome.seconds;
  json["median_seconds"] = run.median_seconds();
  json["rate"] = work / run.median_seconds() / unit.scale;
  json["unit"] = unit.name;
  if (ceiling != nullptr) {
    json["ceiling"] = {{"name", ceiling->name()},
                       {"work", ceiling->work()},
                       {"rate", ceiling->work() / run.median_beside_seconds() / unit.scale},
                       {"seconds", run.outcome.beside_seconds},
                       {"median_seconds", run.median_beside_seconds()}};
    json["of_ceiling"] = of_ceiling(run, work, ceiling->work());
  }
}

}  // namespace

Json to_json(const Ladder& ladder, const RunRequest& request, const RungRun& run,
             const Ceiling* ceiling) {
  const LadderInfo& info = ladder.info();
  const Cost cost = ladder.cost(request.sizes, request.seed);
  const bool on_gpu = request.executor == simt::Executor::kGpu;
  Json json = {{"ladder", info.name},
               {"rung", run.rung.number},
               {"name", run.rung.name},
               {"idea", run.rung.idea},
               {"file", run.rung.file},
               {"exercise", run.rung.exercise},
               {"sizes", Json::object()},
               {"seed", request.seed},
               {"side", on_gpu ? "gpu" : "emulator"},
               {"status", key_of(name_of(run.status))},
               {"right", run.status == Status::kRight},
               {"message", run.message},
               {"operations", cost.operations},
               {"least_bytes", cost.least_bytes}};
  for (std::size_t i = 0; i < request.sizes.size(); ++i) {
    json["sizes"][info.dimensions[i].name] = request.sizes[i];
  }
  if (run.status != Status::kRight && run.status != Status::kWrong) {
    return json;
  }
  json["worst_error"] = run.outcome.verdict.worst();
  json["compared"] = run.outcome.verdict.compared();
  if (on_gpu) {
    add_times(json, run, info.limit, cost, ceiling);
  } else {
    add_counters(json, run);
  }
  return json;
}

}  // namespace ultra::ladders
