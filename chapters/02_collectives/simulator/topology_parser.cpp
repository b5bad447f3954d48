// Reads a Topology from the text of --simulate.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/02_collectives/simulator/topology.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::collectives {
namespace {

/// "key=value" of the text.
struct Entry {
  std::string_view key, value;
};

constexpr auto kKeys = std::to_array<std::string_view>(
    {"nodes", "gpus", "nics", "intra-gb-per-second", "intra-gbps", "intra-us",
     "inter-gb-per-second", "inter-gbps", "inter-us", "gamma", "order", "torus"});

/// The number that the whole of `value` is; `what` it should have been goes into the message.
template <class T>
T number(const Entry& entry, std::string_view value, const char* what) {
  const std::optional<T> number = parse_number<T>(value);
  if (!number) {
    throw ConfigError(
        fmt::format("--simulate {}=...: {} is not {}.", entry.key, in_quotes(value), what));
  }
  return *number;
}

int whole(const Entry& entry, std::string_view value) {
  const int count = number<int>(entry, value, "a whole number");
  if (count < 1) {
    throw ConfigError(
        fmt::format("--simulate {}={}: it must be at least 1.", entry.key, entry.value));
  }
  return count;
}

double real(const Entry& entry) { return number<double>(entry, entry.value, "a number"); }

/// The value times its unit; within bounds that keep every time finite.
double within(const Entry& entry, double low, double high, double unit) {
  const double value = real(entry);
  if (!(value >= low && value <= high)) {
    throw ConfigError(fmt::format("--simulate {}={}: it must be from {:g} to {:g}.", entry.key,
                                  entry.value, low, high));
  }
  return value * unit;
}

double gigabytes(const Entry& entry) { return within(entry, 1e-6, 1e9, 1e9); }

double gigabits(const Entry& entry) { return within(entry, 1e-6, 1e9, 1e9 / 8.0); }

double microseconds(const Entry& entry) { return within(entry, 0.0, 1e9, 1e-6); }

RankOrder rank_order(const Entry& entry) {
  for (const RankOrder order : {RankOrder::kNatural, RankOrder::kInterleaved}) {
    if (entry.value == to_string(order)) return order;
  }
  throw ConfigError(fmt::format("--simulate order={}: it is natural or interleaved.", entry.value));
}

/// The sizes of "4x4x4"; their product must stay within what a topology takes.
std::vector<int> torus_sizes(const Entry& entry) {
  std::vector<int> sizes;
  std::int64_t ranks = 1;
  for (const std::string_view part : split(entry.value, 'x')) {
    sizes.push_back(whole(entry, part));
    ranks = std::min<std::int64_t>(ranks * sizes.back(), std::int64_t{kMaxRanks} + 1);
  }
  if (sizes.size() > 3) {
    throw ConfigError(fmt::format(
        "--simulate torus={}: it has one to three sizes, for example 4x4.", entry.value));
  }
  if (ranks > kMaxRanks) {
    throw ConfigError(fmt::format("--simulate torus={}: the simulation takes at most {} ranks.",
                                  entry.value, kMaxRanks));
  }
  return sizes;
}

void apply(const Entry& entry, Topology& topology) {
  if (entry.key == "nodes") topology.nodes = whole(entry, entry.value);
  if (entry.key == "gpus") topology.gpus_per_node = whole(entry, entry.value);
  if (entry.key == "nics") topology.nics_per_node = whole(entry, entry.value);
  if (entry.key == "intra-gb-per-second") topology.intra.bandwidth = gigabytes(entry);
  if (entry.key == "intra-gbps") topology.intra.bandwidth = gigabits(entry);
  if (entry.key == "inter-gb-per-second") topology.inter.bandwidth = gigabytes(entry);
  if (entry.key == "inter-gbps") topology.inter.bandwidth = gigabits(entry);
  if (entry.key == "intra-us") topology.intra.latency = microseconds(entry);
  if (entry.key == "inter-us") topology.inter.latency = microseconds(entry);
  if (entry.key == "gamma") topology.gamma = within(entry, 0.0, 1.0, 1.0);
  if (entry.key == "order") topology.order = rank_order(entry);
  if (entry.key == "torus") topology.torus = torus_sizes(entry);
}

Topology find_preset(std::string_view name) {
  std::vector<std::string_view> names;
  for (const TopologyPreset& preset : topology_presets()) {
    if (preset.name == name) return preset.topology;
    names.push_back(preset.name);
  }
  throw ConfigError(
      fmt::format("--simulate {} is no known machine. Known: {}; or describe one: {}=...",
                  in_quotes(name), fmt::join(names, ", "), fmt::join(kKeys, "=..., ")));
}

/// The entries behind the preset's name, each key known and given once.
std::vector<Entry> entries_of(const std::vector<std::string_view>& parts, std::size_t first) {
  std::vector<Entry> entries;
  for (std::size_t i = first; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    const std::string_view key = parts[i].substr(0, equals);
    if (equals == std::string_view::npos ||
        std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      throw ConfigError(fmt::format("--simulate does not know {}. Known: {}=...",
                                    in_quotes(parts[i]), fmt::join(kKeys, "=..., ")));
    }
    const bool twice = std::any_of(entries.begin(), entries.end(),
                                   [&](const Entry& entry) { return entry.key == key; });
    if (twice) throw ConfigError(fmt::format("--simulate has {}= twice.", key));
    entries.push_back({key, parts[i].substr(equals + 1)});
  }
  return entries;
}

bool has(const std::vector<Entry>& entries, std::string_view key) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const Entry& entry) { return entry.key == key; });
}

void expect_one_bandwidth(const std::vector<Entry>& entries) {
  for (const std::string_view link : {"intra", "inter"}) {
    const std::string bytes = fmt::format("{}-gb-per-second", link);
    const std::string bits = fmt::format("{}-gbps", link);
    if (has(entries, bytes) && has(entries, bits)) {
      throw ConfigError(fmt::format(
          "--simulate has both {}= (10^9 bytes) and {}= (10^9 bits). Give one.", bytes, bits));
    }
  }
}

/// A torus has neither nodes nor NICs: its sizes say how many ranks there are.
void place_on_torus(const std::vector<Entry>& entries, Topology& topology) {
  for (const std::string_view key :
       {"nodes", "gpus", "nics", "inter-gb-per-second", "inter-gbps", "inter-us", "order"}) {
    if (has(entries, key)) {
      throw ConfigError(fmt::format(
          "--simulate torus= does not go with {}=: a torus has links between neighbours only, "
          "described by intra-gb-per-second and intra-us.",
          key));
    }
  }
  topology.nodes = 1;
  topology.gpus_per_node = 1;
  for (const int size : topology.torus) topology.gpus_per_node *= size;
  topology.nics_per_node = 1;
}

}  // namespace

Topology parse_topology(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ',');
  const bool named = parts.front().find('=') == std::string_view::npos;
  Topology topology = named ? find_preset(parts.front()) : topology_presets().front().topology;
  const std::vector<Entry> entries = entries_of(parts, named ? 1 : 0);
  expect_one_bandwidth(entries);
  for (const Entry& entry : entries) apply(entry, topology);
  if (topology.is_torus()) {
    place_on_torus(entries, topology);
  } else if (!has(entries, "nics")) {
    topology.nics_per_node = std::min(topology.nics_per_node, topology.gpus_per_node);
  }
  topology.validate();
  return topology;
}

}  // namespace ultra::collectives
