#include "common/replay/prices.hpp"
#include "common/base/numeric.hpp"

#include <algorithm>
#include <cmath>

#include "common/base/errors.hpp"
#include "common/replay/product_time.hpp"

namespace ultra::replay {
namespace {

double memory_seconds(const GpuType& gpu, double bytes) {
  return bytes / (gpu.memory_bandwidth * gpu.efficiency.memory);
}

/// Bytes of products beyond their three matrices: of results that are wider, and of what was there
/// before, where they are added to it.
double bytes_besides(const gpu::TapedWork& work) {
  const double elements =
      real(work.m) * real(work.k) + real(work.k) * real(work.n) + real(work.m) * real(work.n);
  const double bytes = real(work.read_bytes) + real(work.written_bytes);
  return std::max(0.0, bytes - real(work.count * work.element_bytes) * elements);
}

double products_seconds(const GpuType& gpu, const gpu::TapedWork& work) {
  if (work.count == 0 || work.m == 0 || work.k == 0 || work.n == 0) return 0;
  const ProductShape shape{.m = real(work.m), .k = real(work.k), .n = real(work.n)};
  const double seconds = real(work.count) * product_seconds(gpu, shape, real(work.element_bytes),
                                                            peak_flops(gpu, work.element_bytes));
  // Where products were measured, so was what they write.
  return gpu.measured_products.empty() ? seconds + memory_seconds(gpu, bytes_besides(work))
                                       : seconds;
}

double seconds_beside_the_kernel(const Cluster& cluster, const gpu::TapedWork& work) {
  const GpuType& gpu = cluster.gpu;
  const double bytes = real(work.read_bytes) + real(work.written_bytes);
  switch (work.kind) {
    case gpu::WorkKind::kProduct:
      return products_seconds(gpu, work);
    case gpu::WorkKind::kAttention:
      return (work.flop + work.flop_again) /
             (peak_flops(gpu, work.element_bytes) * gpu.flash_attention);
    case gpu::WorkKind::kElementwise:
    case gpu::WorkKind::kCopy:
      return memory_seconds(gpu, bytes);
    case gpu::WorkKind::kHostCopy:
      return bytes / cluster.host_bandwidth;
  }
  throw InternalError("a kind of work has no price");
}

}  // namespace

double peak_flops(const GpuType& gpu, std::size_t element_bytes) {
  if (!gpu.measured_products.empty()) return gpu.peak_flops;
  switch (element_bytes) {
    case 1:
      return gpu.fp8_flops > 0 ? gpu.fp8_flops : gpu.peak_flops;
    case 4:
      return gpu.peak_flops / 2;
    case 8:
      return gpu.peak_flops / 16;
    default:
      return gpu.peak_flops;
  }
}

double work_seconds(const Cluster& cluster, const gpu::TapedWork& work) {
  return seconds_beside_the_kernel(cluster, work) + cluster.gpu.kernel_seconds;
}

double message_seconds(const Cluster& cluster, const GroupPlacement& group, double bytes) {
  if (group.ranks == 1) return 0;
  if (group.nodes == 1) return cluster.intra.latency + bytes / cluster.intra.bandwidth;
  return cluster.inter.latency + bytes / cluster.rank_network(group.nodes);
}

double straggler_slowdown(const Cluster& cluster, std::size_t gpus) {
  return 1 + cluster.straggler * std::sqrt(2 * std::log(real(gpus)));
}

}  // namespace ultra::replay
