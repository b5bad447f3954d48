#pragma once
/// @file
/// Prices: what the entries of a tape take on a cluster.

#include <cstddef>
#include <functional>

#include "common/gpu/meta/tape.hpp"
#include "common/replay/cluster/cluster.hpp"
#include "common/replay/cluster/placement.hpp"

namespace ultra::replay {

/// @brief Seconds of a collective of this many bytes: TapedExchange::bytes.
using PriceExchange = std::function<double(const Cluster&, const GroupPlacement&,
                                           gpu::ExchangeKind kind, double bytes)>;

/// @brief A price list.
struct Prices {
  Cluster cluster;         ///< what work and messages are priced by
  PriceExchange exchange;  ///< of the algorithms in use
};

/// @brief Peak FLOP per second of products whose factors have elements of this many bytes.
///
/// Of 2 bytes the bf16 peak; of 1 the fp8 peak, where the GPU has one; of 4 half of the bf16 peak,
/// as tensor cores compute tf32; of 8 a sixteenth, as they compute f64. A machine whose products
/// were measured has one peak: that of the format which was measured.
/// Source: data sheets of NVIDIA's A100 and H100.
[[nodiscard]] double peak_flops(const GpuType& gpu, std::size_t element_bytes);

/// @brief Seconds of work on a stream: one kernel.
///
/// A product by product_seconds(), `count` times over, and what it reads and writes beyond its three
/// matrices (a gradient that is added up in f32) by the memory; attention by its FLOP, with those of
/// scores that it computes again, at the published part of the peak; elementwise work and copies on
/// the device by the bytes that pass through its memory, copies to and from the host by those that
/// pass through the host's link. Each takes GpuType::kernel_seconds besides.
[[nodiscard]] double work_seconds(const Cluster& cluster, const gpu::TapedWork& work);

/// @brief Seconds of one message from each rank to the next of its group, on a link of its own.
[[nodiscard]] double message_seconds(const Cluster& cluster, const GroupPlacement& group,
                                     double bytes);

/// @brief By how much a step of n ranks, which all wait for the slowest, is longer than that of one,
/// whose time varies by the cluster's `straggler`: 1 + straggler sqrt(2 ln n), the expected maximum
/// of n normal variables.
[[nodiscard]] double straggler_slowdown(const Cluster& cluster, std::size_t gpus);

}  // namespace ultra::replay
