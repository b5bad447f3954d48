#include "common/replay/cluster/cluster.hpp"
#include "common/base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "common/base/errors.hpp"

namespace ultra::replay {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kTera = 1e12;
constexpr double kMicro = 1e-6;

/// The A100's constants: no row of it was fitted.
GpuType v100() {
  return {.name = "v100",
          .peak_flops = 125 * kTera,
          .memory_bandwidth = 900 * kGB,
          .memory_bytes = 32 * kGiB,
          .multiprocessors = 80,
          .flash_attention = 0.4,
          .efficiency = {.products = 0.88, .memory = 0.60, .network = 0.55}};
}

GpuType a100() {
  return {.name = "a100",
          .peak_flops = 312 * kTera,
          .memory_bandwidth = 2039 * kGB,
          .memory_bytes = 80 * kGiB,
          .multiprocessors = 108,
          .flash_attention = 0.6,
          .efficiency = {.products = 0.88, .memory = 0.60, .network = 0.55}};
}

GpuType h100() {
  return {.name = "h100",
          .peak_flops = 989 * kTera,
          .fp8_flops = 1979 * kTera,
          .memory_bandwidth = 3350 * kGB,
          .memory_bytes = 81559 * kMiB,  // as nvidia-smi says
          .multiprocessors = 132,
          .flash_attention = 0.40,
          .efficiency = {.products = 0.60, .memory = 0.90, .network = 0.35}};
}

GpuType with_name(GpuType gpu, const char* name) {
  gpu.name = name;
  return gpu;
}

/// The H100's constants: no row of it was fitted.
GpuType blackwell(const char* name, double tera, double bytes) {
  GpuType gpu = with_name(h100(), name);
  gpu.peak_flops = tera * kTera;
  gpu.fp8_flops = 2 * tera * kTera;
  gpu.memory_bandwidth = 8000 * kGB;
  gpu.memory_bytes = bytes;
  gpu.multiprocessors = 148;
  return gpu;
}

/// A card on PCIe. The A100's constants, whose products are instructions of a warp too: no row of it
/// was fitted.
GpuType card(const char* name, double tera, double fp8_tera, double memory_gb, double gib,
             int multiprocessors) {
  GpuType gpu = with_name(a100(), name);
  gpu.peak_flops = tera * kTera;
  gpu.fp8_flops = fp8_tera * kTera;
  gpu.memory_bandwidth = memory_gb * kGB;
  gpu.memory_bytes = gib * kGiB;
  gpu.multiprocessors = multiprocessors;
  return gpu;
}

Cluster dgx(std::string name, GpuType gpu, double intra_gb, double nic_gb, int nics) {
  return {.name = std::move(name),
          .gpu = std::move(gpu),
          .nics_per_node = nics,
          .intra = {.latency = 3.4 * kMicro, .bandwidth = intra_gb * kGB},
          .inter = {.latency = 14 * kMicro, .bandwidth = nic_gb * kGB}};
}

/// Inside a node what a ring reaches, not what sums in the switch do: of H800 that is the part of
/// its 200 GB/s that H100 reaches of 450, of Blackwell the part of its 900, of cards on PCIe 5 and 4
/// likewise of 63 and 31; without copies from card to card (RTX 4090) half of that.
std::vector<Cluster> all_clusters() {
  GpuType h200 = with_name(h100(), "h200");
  h200.memory_bandwidth = 4800 * kGB;
  h200.memory_bytes = 143771 * kMiB;  // as nvidia-smi says
  // 500 W. Products and attention (PyTorch's) were fitted on two rows of torchtitan's.
  GpuType hbm2e = with_name(h100(), "h100-hbm2e");
  hbm2e.memory_bandwidth = 2400 * kGB;
  hbm2e.memory_bytes = 95.04 * kGiB;
  hbm2e.flash_attention = 0.225;
  hbm2e.efficiency.products = 0.50;
  GpuType a100_40 = with_name(a100(), "a100-40gb");
  a100_40.memory_bandwidth = 1555 * kGB;
  a100_40.memory_bytes = 40 * kGiB;
  Cluster gb200 = dgx("gb200-nvl72", blackwell("gb200", 2500, 186 * kGB), 740, 50, 72);
  gb200.gpus_per_node = 72;
  return {dgx("dgx-v100", v100(), 130, 12.5, 4),
          dgx("dgx-a100", a100(), 230, 25, 8),
          dgx("dgx-a100-40gb", a100_40, 230, 25, 8),
          dgx("dgx-h100", h100(), 370, 50, 8),
          dgx("h800", with_name(h100(), "h800"), 160, 50, 8),
          dgx("h200", h200, 370, 50, 8),
          dgx("h100-hbm2e", hbm2e, 370, 50, 8),
          dgx("h100-efa", h100(), 250, 50, 8),
          dgx("dgx-b200", blackwell("b200", 2250, 180 * kGB), 740, 50, 8),
          gb200,
          dgx("l40s", card("l40s", 362, 733, 864, 46068 / 1024.0, 142), 25, 25, 4),
          dgx("rtx-4090", card("rtx-4090", 165.2, 330.3, 1008, 24, 128), 16, 12.5, 1),
          dgx("rtx-pro-6000", card("rtx-pro-6000", 503.8, 1007.6, 1792, 96 * kGB / kGiB, 188), 50,
              50, 8)};
}

/// Numbers beyond these are of no machine, and times made of them of no calendar.
struct Limits {
  double least;
  double most;
};
constexpr Limits kFlops{1e3, 1e24};
constexpr Limits kBandwidth{1, 1e18};  // bytes per second
constexpr Limits kBytes{1, 1e18};
constexpr Limits kPart{1e-6, 1};
constexpr Limits kSeconds{0, 1e9};
constexpr Limits kHours{1e-3, 1e12};
constexpr Limits kExtent{1, 1e12};  // of a product

/// Checks the numbers under some key of a description.
class Checker {
 public:
  explicit Checker(std::string place) : place_(std::move(place)) {}

  /// For what stands in an object under a key.
  [[nodiscard]] Checker in(std::string_view key) const {
    return Checker(fmt::format("{}: \"{}\"", place_, key));
  }
  /// For one of a list; the first is 1.
  [[nodiscard]] Checker number(std::size_t index) const {
    return Checker(fmt::format("{} number {}", place_, index));
  }
  void expect(bool right, std::string_view key, double value, std::string_view wanted) const {
    if (right) return;
    throw ConfigError(fmt::format("{}: \"{}\" is {}. It must be {}.", place_, key, value, wanted));
  }
  void expect(std::string_view key, double value, const Limits& limits) const {
    expect(value >= limits.least && value <= limits.most, key, value,
           fmt::format("from {:g} to {:g}", limits.least, limits.most));
  }

 private:
  std::string place_;
};

void expect_gpu(const GpuType& gpu, const Checker& check) {
  check.expect("peak_flops", gpu.peak_flops, kFlops);
  if (gpu.fp8_flops != 0) check.expect("fp8_flops", gpu.fp8_flops, kFlops);
  check.expect("memory_bandwidth", gpu.memory_bandwidth, kBandwidth);
  check.expect("memory_bytes", gpu.memory_bytes, kBytes);
  check.expect("multiprocessors", gpu.multiprocessors, {1, kMostOfANode});
  check.expect("flash_attention", gpu.flash_attention, kPart);
  check.expect("kernel_seconds", gpu.kernel_seconds, kSeconds);
  const Checker efficiency = check.in("efficiency");
  efficiency.expect("products", gpu.efficiency.products, kPart);
  efficiency.expect("memory", gpu.efficiency.memory, kPart);
  efficiency.expect("network", gpu.efficiency.network, kPart);
  for (std::size_t i = 0; i < gpu.measured_products.size(); ++i) {
    const MeasuredProduct& product = gpu.measured_products[i];
    const Checker one = check.in("measured_products").number(i + 1);
    one.expect("m", product.m, kExtent);
    one.expect("k", product.k, kExtent);
    one.expect("n", product.n, kExtent);
    one.expect("flops", product.flops, kFlops);
  }
}

/// One measured number of nodes after the other, each with more than the one before it.
void expect_network(const std::vector<NetworkPart>& network, const Checker& check) {
  std::size_t before = 1;
  for (std::size_t i = 0; i < network.size(); ++i) {
    const Checker one = check.number(i + 1);
    const auto nodes = static_cast<double>(network[i].nodes);
    one.expect(network[i].nodes > before, "nodes", nodes, fmt::format("more than {}", before));
    one.expect("part", network[i].part, kPart);
    before = network[i].nodes;
  }
}

void expect_link(const Link& link, const Checker& check) {
  check.expect("latency", link.latency, kSeconds);
  check.expect("bandwidth", link.bandwidth, kBandwidth);
}

}  // namespace

double Cluster::node_bandwidth(std::size_t nodes) const {
  const double all = nics_per_node * inter.bandwidth;
  if (network_by_nodes.empty()) return all * gpu.efficiency.network;
  const auto above = std::ranges::lower_bound(network_by_nodes, nodes, {}, &NetworkPart::nodes);
  if (above == network_by_nodes.end()) return all * network_by_nodes.back().part;
  if (above == network_by_nodes.begin()) return all * above->part;
  const NetworkPart& below = *std::prev(above);
  const double way = std::log(static_cast<double>(nodes) / static_cast<double>(below.nodes)) /
                     std::log(static_cast<double>(above->nodes) / static_cast<double>(below.nodes));
  return all * below.part * std::pow(above->part / below.part, way);
}

void Cluster::validate(const std::string& where) const {
  const Checker check(where);
  expect_gpu(gpu, check.in("gpu"));
  check.expect("gpus_per_node", gpus_per_node, {1, kMostOfANode});
  check.expect(nics_per_node >= 1 && nics_per_node <= gpus_per_node, "nics_per_node", nics_per_node,
               fmt::format("from 1 to gpus_per_node, {}", gpus_per_node));
  expect_link(intra, check.in("intra"));
  expect_link(inter, check.in("inter"));
  expect_network(network_by_nodes, check.in("network_by_nodes"));
  check.expect(straggler >= 0 && straggler < 1, "straggler", straggler, "at least 0 and below 1");
  check.expect("network_steals", network_steals, {0, 1});
  check.expect("mean_hours_to_failure", mean_hours_to_failure, kHours);
  check.expect("checkpoint_bandwidth", checkpoint_bandwidth, kBandwidth);
  check.expect("host_bandwidth", host_bandwidth, kBandwidth);
  check.expect("restart_seconds", restart_seconds, kSeconds);
}

const std::vector<Cluster>& named_clusters() {
  static const std::vector<Cluster> clusters = all_clusters();
  return clusters;
}

const Cluster* find_cluster(std::string_view name) {
  const auto found = std::ranges::find(named_clusters(), name, &Cluster::name);
  return found == named_clusters().end() ? nullptr : &*found;
}

}  // namespace ultra::replay
