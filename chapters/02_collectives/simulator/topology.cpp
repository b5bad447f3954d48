#include "chapters/02_collectives/simulator/topology.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::collectives {
namespace {

constexpr double kGb = 1e9;
constexpr double kMicrosecond = 1e-6;
constexpr int kMaxDimensions = 3;

/// Ports of a rank on a torus: two directions per dimension.
int torus_port(int rank, std::size_t dimensions, std::size_t dimension, bool forward) {
  const auto per_rank = checked_cast<int>(2 * dimensions);
  return rank * per_rank + checked_cast<int>(2 * dimension) + (forward ? 0 : 1);
}

int rank_at(const std::vector<int>& torus, const std::vector<int>& coordinates) {
  int rank = 0;
  for (std::size_t d = 0; d < torus.size(); ++d) rank = rank * torus[d] + coordinates[d];
  return rank;
}

Route torus_route(const Topology& topology, int from, int to) {
  const std::vector<int>& torus = topology.torus;
  std::vector<int> here = topology.coordinates_of(from);
  const std::vector<int> target = topology.coordinates_of(to);
  Route route{.kind = LinkKind::kTorus, .beta = topology.intra.beta(), .ports = {}};
  for (std::size_t d = 0; d < torus.size(); ++d) {
    const int size = torus[d];
    const int ahead = (target[d] - here[d] + size) % size;
    const bool forward = 2 * ahead <= size;
    for (int hops = forward ? ahead : size - ahead; hops > 0; --hops) {
      route.ports.push_back(torus_port(rank_at(torus, here), torus.size(), d, forward));
      here[d] = (here[d] + (forward ? 1 : size - 1)) % size;
    }
  }
  route.alpha = static_cast<double>(route.ports.size()) * topology.intra.latency;
  return route;
}

void check_count(int value, const char* key) {
  if (value < 1) throw ConfigError(fmt::format("{} is {}. It must be at least 1.", key, value));
}

void check_link(const replay::Link& link, const char* name) {
  if (!(link.bandwidth > 0.0) || !std::isfinite(link.bandwidth)) {
    throw ConfigError(fmt::format("the {} link has {:g} GB/s. It must have more than 0.", name,
                                  link.bandwidth / kGb));
  }
  if (!(link.latency >= 0.0) || !std::isfinite(link.latency)) {
    throw ConfigError(fmt::format("the {} link has a latency of {:g} us. It must be 0 or more.",
                                  name, link.latency / kMicrosecond));
  }
}

void check_rank_count(std::int64_t ranks) {
  if (ranks > kMaxRanks) {
    throw ConfigError(fmt::format("nodes x gpus is {} ranks: the simulation takes at most {}.",
                                  ranks, kMaxRanks));
  }
}

Topology h100_node(double intra_gbps, int nics, double nic_gbps) {
  return {.nodes = 1,
          .gpus_per_node = 8,
          .intra = {.latency = 3.4 * kMicrosecond, .bandwidth = intra_gbps * kGb},
          .inter = {.latency = 14.0 * kMicrosecond, .bandwidth = nic_gbps * kGb},
          .nics_per_node = nics,
          .torus = {}};
}

}  // namespace

std::string_view to_string(LinkKind kind) {
  constexpr std::array<std::string_view, kLinkKinds> kNames = {"intra", "inter", "torus"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view to_string(RankOrder order) {
  return order == RankOrder::kNatural ? "natural" : "interleaved";
}

int Topology::node_of(int rank) const {
  return order == RankOrder::kNatural ? rank / gpus_per_node : rank % nodes;
}

int Topology::local_rank_of(int rank) const {
  return order == RankOrder::kNatural ? rank % gpus_per_node : rank / nodes;
}

int Topology::nic_of(int rank) const {
  return node_of(rank) * nics_per_node + local_rank_of(rank) * nics_per_node / gpus_per_node;
}

std::vector<int> Topology::coordinates_of(int rank) const {
  std::vector<int> coordinates(torus.size());
  for (std::size_t d = torus.size(); d-- > 0;) {
    coordinates[d] = rank % torus[d];
    rank /= torus[d];
  }
  return coordinates;
}

int Topology::port_count() const {
  if (is_torus()) return ranks() * checked_cast<int>(2 * torus.size());
  return 2 * (ranks() + nodes * nics_per_node);
}

Route Topology::route(int from, int to) const {
  if (is_torus()) return torus_route(*this, from, to);
  if (node_of(from) == node_of(to)) {
    return {.kind = LinkKind::kIntra,
            .alpha = intra.latency,
            .beta = intra.beta(),
            .ports = {from, ranks() + to}};
  }
  const int first_nic_out = 2 * ranks();
  const int first_nic_in = first_nic_out + nodes * nics_per_node;
  return {.kind = LinkKind::kInter,
          .alpha = inter.latency,
          .beta = inter.beta(),
          .ports = {first_nic_out + nic_of(from), first_nic_in + nic_of(to)}};
}

LinkCost Topology::cost(LinkKind kind) const {
  const replay::Link& link = kind == LinkKind::kInter ? inter : intra;
  return {.alpha = link.latency, .beta = link.beta(), .gamma = gamma};
}

void Topology::validate() const {
  check_count(nodes, "nodes");
  check_count(gpus_per_node, "gpus");
  check_count(nics_per_node, "nics");
  check_rank_count(std::int64_t{nodes} * gpus_per_node);
  check_link(intra, "intra");
  check_link(inter, "inter");
  if (!(gamma >= 0.0) || !std::isfinite(gamma)) {
    throw ConfigError(fmt::format("gamma is {}. It must be 0 seconds per byte or more.", gamma));
  }
  if (nics_per_node > gpus_per_node) {
    throw ConfigError(fmt::format(
        "nics={} is more than gpus={}: a GPU uses one NIC. Where it has several, write one with "
        "their bandwidth together.",
        nics_per_node, gpus_per_node));
  }
  if (!is_torus()) return;
  const std::int64_t product = std::accumulate(torus.begin(), torus.end(), std::int64_t{1},
                                               [](std::int64_t a, int b) { return a * b; });
  if (torus.size() > kMaxDimensions || nodes != 1 || product != gpus_per_node) {
    throw ConfigError(fmt::format("torus={} does not describe {} nodes x {} ranks.",
                                  fmt::join(torus, "x"), nodes, gpus_per_node));
  }
}

std::string Topology::describe() const {
  const auto link = [](const replay::Link& l) {
    return fmt::format("{:g} GB/s, {:g} us", l.bandwidth / kGb, l.latency / kMicrosecond);
  };
  if (is_torus()) {
    return fmt::format("{} torus = {} ranks; {} per link and direction", fmt::join(torus, " x "),
                       ranks(), link(intra));
  }
  std::string text =
      fmt::format("{} node{} x {} GPU{} = {} ranks; {} in a node", nodes, nodes == 1 ? "" : "s",
                  gpus_per_node, gpus_per_node == 1 ? "" : "s", ranks(), link(intra));
  if (nodes > 1) {
    text += fmt::format("; {} NIC{} of {} per node; {} order", nics_per_node,
                        nics_per_node == 1 ? "" : "s", link(inter), to_string(order));
  }
  return text;
}

std::span<const TopologyPreset> topology_presets() {
  static const std::array<TopologyPreset, 5> kPresets = {{
      {"h100", "8 GPUs at the bandwidth that NCCL's ring reaches, a NIC for each",
       "370 GB/s: nccl-tests issue 212; InfiniBand NDR 400 Gb/s = 50 GB/s; 3.4 us and 14 us: "
       "NCCL's src/graph/tuning.cc, ring, Simple protocol",
       h100_node(370, 8, 50)},
      {"h100-striped",
       "the same, with the 8 NICs as one: NCCL runs rings side by side, each through another NIC",
       "as h100; 8 x 50 GB/s", h100_node(370, 1, 400)},
      {"h100-line-rate", "8 GPUs at NVLink 4's full 450 GB/s per direction",
       "900 GB/s in both directions: the Ultra-Scale Playbook; the rest as h100",
       h100_node(450, 8, 50)},
      {"h800", "8 GPUs with the narrower NVLink",
       "about 215 GB/s: nccl issue 1374; the rest as h100", h100_node(215, 8, 50)},
      {"pcie", "8 GPUs on PCIe 5 x16, one NIC for all",
       "63 GB/s one way: the Ultra-Scale Playbook; 5.7 us: NCCL's src/graph/tuning.cc",
       [] {
         Topology topology = h100_node(63, 1, 50);
         topology.intra.latency = 5.7 * kMicrosecond;
         return topology;
       }()},
  }};
  return kPresets;
}

}  // namespace ultra::collectives
