#include "common/train/elsewhere/on_option.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/replay/cluster/cluster_file.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::train {
namespace {

using replay::Cluster;

/// A number of a cluster, by its key in a cluster file.
struct Key {
  std::string_view name;
  void (*set)(Cluster& cluster, double value);
};

void set_count(int& to, double value) { to = static_cast<int>(value); }

constexpr Key kKeys[] = {
    {"gpus_per_node", [](Cluster& c, double v) { set_count(c.gpus_per_node, v); }},
    {"nics_per_node", [](Cluster& c, double v) { set_count(c.nics_per_node, v); }},
    {"intra.bandwidth", [](Cluster& c, double v) { c.intra.bandwidth = v; }},
    {"intra.latency", [](Cluster& c, double v) { c.intra.latency = v; }},
    {"inter.bandwidth", [](Cluster& c, double v) { c.inter.bandwidth = v; }},
    {"inter.latency", [](Cluster& c, double v) { c.inter.latency = v; }},
    {"network_steals", [](Cluster& c, double v) { c.network_steals = v; }},
    {"straggler", [](Cluster& c, double v) { c.straggler = v; }},
    {"host_bandwidth", [](Cluster& c, double v) { c.host_bandwidth = v; }},
    {"gpu.peak_flops", [](Cluster& c, double v) { c.gpu.peak_flops = v; }},
    {"gpu.memory_bandwidth", [](Cluster& c, double v) { c.gpu.memory_bandwidth = v; }},
    {"gpu.memory_bytes", [](Cluster& c, double v) { c.gpu.memory_bytes = v; }},
    {"gpu.flash_attention", [](Cluster& c, double v) { c.gpu.flash_attention = v; }},
    {"gpu.kernel_seconds", [](Cluster& c, double v) { c.gpu.kernel_seconds = v; }},
};

ConfigError unreadable(std::string_view part, std::string_view why) {
  return ConfigError(fmt::format("--on: {} {}", in_quotes(std::string(part)), why));
}

void change(Cluster& cluster, std::string_view pair) {
  const std::size_t equals = pair.find('=');
  const std::string_view name = pair.substr(0, equals);
  const auto* const key = std::ranges::find(kKeys, name, &Key::name);
  if (equals == std::string_view::npos || key == std::end(kKeys)) {
    std::vector<std::string_view> names;
    for (const Key& known : kKeys) names.push_back(known.name);
    throw unreadable(pair, fmt::format("is no key=value of a cluster. Its keys are {}.",
                                       fmt::join(names, ", ")));
  }
  const std::string value(pair.substr(equals + 1));
  const std::optional<double> number = parse_number<double>(value);
  const bool is_count = name.ends_with("_per_node");
  if (!number || (is_count && !parse_number<std::uint64_t>(value))) {
    throw unreadable(pair, is_count ? "needs a whole number." : "needs a number.");
  }
  key->set(cluster, *number);
}

}  // namespace

void OnOptions::add_to(CLI::App& app) {
  const Flags flags(app, "On another machine");
  flags.add_parsed(
      "--on", [this](const std::string& text) { machine = parse_machine(text); },
      "record a step and say what it takes on this machine, instead of training: a cluster "
      "or a .json file, with :NODES and ,key=value behind it");
  flags.add_switch("--on-json", json, "say so as JSON");
  Flags(app, "").add_parsed(
      "--estimate",
      [](const std::string& model) {
        throw ConfigError(fmt::format(
            "--estimate is no longer there: --on records a step of the program itself. Write for "
            "example --model {} --on dgx-h100, and --on-json for JSON.",
            model == "custom" ? "llama-8b" : model));
      },
      "");
}

Machine parse_machine(const std::string& text) {
  const std::vector<std::string_view> parts = split(text, ',');
  const std::string_view first = parts.front();
  const std::size_t colon = first.rfind(':');
  Machine machine{.cluster = replay::cluster_by_name(std::string(first.substr(0, colon)), "--on"),
                  .nodes = {}};
  if (colon != std::string_view::npos) {
    const std::string count(first.substr(colon + 1));
    machine.nodes = parse_number<std::uint64_t>(count);
    if (!machine.nodes || *machine.nodes == 0) {
      throw unreadable(first, "needs a number of nodes of at least 1 behind the colon.");
    }
  }
  for (std::size_t i = 1; i < parts.size(); ++i) change(machine.cluster, parts[i]);
  machine.cluster.validate("--on");
  return machine;
}

}  // namespace ultra::train
