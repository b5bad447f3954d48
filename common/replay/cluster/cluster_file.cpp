#include "common/replay/cluster/cluster_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "common/base/errors.hpp"
#include "common/base/json_fields.hpp"
#include "common/base/text.hpp"

namespace ultra::replay {
namespace {

/// A name as reports print it: in a line.
std::string name_or(const JsonFields& fields, const std::string& otherwise) {
  constexpr std::size_t kMostBytes = 200;
  std::string name = fields.text_or("name", otherwise);
  if (!fields.has("name") || name.size() <= kMostBytes) return name;
  throw FileError(fmt::format("{}: \"name\" has {} bytes. It must have at most {}.", fields.where(),
                              name.size(), kMostBytes));
}

int count_of(const JsonFields& fields, std::string_view key) {
  const std::size_t count = fields.count(key);
  if (count <= std::size_t{kMostOfANode}) return static_cast<int>(count);
  throw FileError(fmt::format("{}: \"{}\" is {}. It must be at most {}.", fields.where(), key,
                              count, kMostOfANode));
}

int count_or(const JsonFields& fields, std::string_view key, int otherwise) {
  return fields.has(key) ? count_of(fields, key) : otherwise;
}

Link link_of(const JsonFields& file, std::string_view key) {
  const JsonFields fields = file.object(key);
  fields.expect_only({"latency", "bandwidth"});
  return {.latency = fields.number("latency"), .bandwidth = fields.number("bandwidth")};
}

Efficiency efficiency_of(const JsonFields& gpu) {
  Efficiency efficiency;
  if (!gpu.has("efficiency")) return efficiency;
  const JsonFields fields = gpu.object("efficiency");
  fields.expect_only({"products", "memory", "network"});
  return {.products = fields.number_or("products", efficiency.products),
          .memory = fields.number_or("memory", efficiency.memory),
          .network = fields.number_or("network", efficiency.network)};
}

GpuType gpu_of(const JsonFields& fields) {
  fields.expect_only({"name", "peak_flops", "fp8_flops", "memory_bandwidth", "memory_bytes",
                      "multiprocessors", "flash_attention", "kernel_seconds", "efficiency",
                      "measured_products"});
  GpuType gpu{.name = name_or(fields, "gpu"),
              .peak_flops = fields.number("peak_flops"),
              .fp8_flops = fields.number_or("fp8_flops", 0),
              .memory_bandwidth = fields.number("memory_bandwidth"),
              .memory_bytes = fields.number("memory_bytes"),
              .multiprocessors = count_or(fields, "multiprocessors", 1)};
  gpu.flash_attention = fields.number_or("flash_attention", gpu.flash_attention);
  gpu.kernel_seconds = fields.number_or("kernel_seconds", gpu.kernel_seconds);
  gpu.efficiency = efficiency_of(fields);
  for (const JsonFields& product : fields.objects("measured_products")) {
    product.expect_only({"m", "k", "n", "flops"});
    gpu.measured_products.push_back({.m = product.number("m"),
                                     .k = product.number("k"),
                                     .n = product.number("n"),
                                     .flops = product.number("flops")});
  }
  return gpu;
}

}  // namespace

Cluster read_cluster_file(const std::string& path) {
  const JsonFields file = JsonFields::of_file(path);
  file.expect_only({"name", "gpu", "gpus_per_node", "nics_per_node", "intra", "inter", "ranks_copy",
                    "network_steals", "straggler", "mean_hours_to_failure", "checkpoint_bandwidth",
                    "restart_seconds", "host_bandwidth", "network_by_nodes"});
  Cluster cluster{.name = name_or(file, path),
                  .gpu = gpu_of(file.object("gpu")),
                  .gpus_per_node = count_of(file, "gpus_per_node"),
                  .intra = link_of(file, "intra"),
                  .inter = link_of(file, "inter")};
  cluster.nics_per_node = count_or(file, "nics_per_node", cluster.gpus_per_node);
  cluster.ranks_copy = file.flag_or("ranks_copy", cluster.ranks_copy);
  cluster.network_steals = file.number_or("network_steals", cluster.network_steals);
  cluster.straggler = file.number_or("straggler", cluster.straggler);
  cluster.mean_hours_to_failure =
      file.number_or("mean_hours_to_failure", cluster.mean_hours_to_failure);
  cluster.checkpoint_bandwidth =
      file.number_or("checkpoint_bandwidth", cluster.checkpoint_bandwidth);
  cluster.restart_seconds = file.number_or("restart_seconds", cluster.restart_seconds);
  cluster.host_bandwidth = file.number_or("host_bandwidth", cluster.host_bandwidth);
  for (const JsonFields& measured : file.objects("network_by_nodes")) {
    measured.expect_only({"nodes", "part"});
    cluster.network_by_nodes.push_back(
        {.nodes = measured.count("nodes"), .part = measured.number("part")});
  }
  cluster.validate(file.where());
  return cluster;
}

Cluster cluster_by_name(const std::string& name, std::string_view flag) {
  if (name.ends_with(".json")) return read_cluster_file(name);
  if (const Cluster* cluster = find_cluster(name)) return *cluster;
  std::vector<std::string_view> names;
  for (const Cluster& cluster : named_clusters()) names.push_back(cluster.name);
  throw ConfigError(
      fmt::format("{}: no cluster is called {}. Choose {}, or a file that ends in .json.", flag,
                  in_quotes(name), fmt::join(names, ", ")));
}

}  // namespace ultra::replay
