#include "chapters/11_five_d/planner/cluster/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/errors.hpp"

namespace ultra::planner {
namespace {

constexpr double kGB = 1e9;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
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
          .memory_bytes = 80 * kGiB,
          .multiprocessors = 132,
          .flash_attention = 0.40,
          .efficiency = {.products = 0.60, .memory = 0.90, .network = 0.35}};
}

GpuType with_name(GpuType gpu, const char* name) {
  gpu.name = name;
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
/// its 200 GB/s that H100 reaches of 450.
std::vector<Cluster> all_clusters() {
  GpuType h200 = with_name(h100(), "h200");
  h200.memory_bandwidth = 4800 * kGB;
  h200.memory_bytes = 141 * kGB;
  GpuType a100_40 = with_name(a100(), "a100-40gb");
  a100_40.memory_bandwidth = 1555 * kGB;
  a100_40.memory_bytes = 40 * kGiB;
  return {dgx("dgx-v100", v100(), 130, 12.5, 4),
          dgx("dgx-a100", a100(), 230, 25, 8),
          dgx("dgx-a100-40gb", a100_40, 230, 25, 8),
          dgx("dgx-h100", h100(), 370, 50, 8),
          dgx("h800", with_name(h100(), "h800"), 160, 50, 8),
          dgx("h200", h200, 370, 50, 8),
          dgx("h100-efa", h100(), 250, 50, 8)};
}

void expect(bool right, std::string_view key, double value, std::string_view wanted) {
  if (right) return;
  throw ConfigError(fmt::format("The cluster's \"{}\" is {}. It must be {}.", key, value, wanted));
}

void expect_part(std::string_view key, double value) {
  expect(value > 0 && value <= 1, key, value, "above 0 and at most 1");
}

void expect_positive(std::string_view key, double value) {
  expect(std::isfinite(value) && value > 0, key, value, "a number above 0");
}

}  // namespace

void Cluster::validate() const {
  expect_positive("peak_flops", gpu.peak_flops);
  expect_positive("memory_bandwidth", gpu.memory_bandwidth);
  expect_positive("memory_bytes", gpu.memory_bytes);
  expect(gpu.multiprocessors >= 1, "multiprocessors", gpu.multiprocessors, "at least 1");
  expect_part("products", gpu.efficiency.products);
  expect_part("memory", gpu.efficiency.memory);
  expect_part("network", gpu.efficiency.network);
  expect_part("flash_attention", gpu.flash_attention);
  expect(gpu.kernel_seconds >= 0, "kernel_seconds", gpu.kernel_seconds, "at least 0");
  expect(gpus_per_node >= 1, "gpus_per_node", gpus_per_node, "at least 1");
  expect(nics_per_node >= 1 && nics_per_node <= gpus_per_node, "nics_per_node", nics_per_node,
         fmt::format("from 1 to gpus_per_node, {}", gpus_per_node));
  expect_positive("intra.bandwidth", intra.bandwidth);
  expect_positive("inter.bandwidth", inter.bandwidth);
  expect(intra.latency >= 0, "intra.latency", intra.latency, "at least 0");
  expect(inter.latency >= 0, "inter.latency", inter.latency, "at least 0");
  expect(straggler >= 0 && straggler < 1, "straggler", straggler, "at least 0 and below 1");
  expect(network_steals >= 0 && network_steals <= 1, "network_steals", network_steals,
         "from 0 to 1");
  expect_positive("mean_hours_to_failure", mean_hours_to_failure);
  expect_positive("checkpoint_bandwidth", checkpoint_bandwidth);
  expect_positive("host_bandwidth", host_bandwidth);
  expect(restart_seconds >= 0, "restart_seconds", restart_seconds, "at least 0");
  for (const MeasuredProduct& product : gpu.measured_products) {
    for (const double value : {product.m, product.k, product.n, product.flops}) {
      expect_positive("measured_products", value);
    }
  }
}

const std::vector<Cluster>& named_clusters() {
  static const std::vector<Cluster> clusters = all_clusters();
  return clusters;
}

const Cluster* find_cluster(std::string_view name) {
  const auto found = std::ranges::find(named_clusters(), name, &Cluster::name);
  return found == named_clusters().end() ? nullptr : &*found;
}

}  // namespace ultra::planner
