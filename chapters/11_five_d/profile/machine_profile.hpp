#pragma once
/// @file
/// --profile-machine: what this machine's ranks compute, move and send, as a cluster file.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/nn/model_config.hpp"
#include "common/tensor/dtype.hpp"
#include "common/train/cli/technique.hpp"

/// @brief Chapter 11: this machine in numbers, for a planner.
namespace ultra::profile {

/// @brief A product [m, k] x [k, n] and how fast a rank computes it while all others do.
struct ProductSpeed {
  std::size_t m = 0;  ///< rows
  std::size_t k = 0;  ///< summed over
  std::size_t n = 0;  ///< columns
  double flops = 0;   ///< floating-point operations per second
};

/// @brief A link between two ranks: seconds = latency + bytes / bandwidth.
struct LinkSpeed {
  double latency = 0;    ///< seconds of an empty message
  double bandwidth = 0;  ///< bytes per second
};

/// @brief What a training's blocks are like: what is measured beside products has these shapes.
struct BlockExtents {
  nn::ModelConfig model;      ///< width, heads, feed-forward width
  std::size_t batch = 1;      ///< sequences of a micro-batch
  std::size_t seq = 1;        ///< tokens of a sequence
  DType dtype = DType::kF32;  ///< of everything

  /// @brief Of a micro-batch.
  [[nodiscard]] double tokens() const { return static_cast<double>(batch * seq); }
};

/// @brief One rank of this machine, beside as many others as the profile has.
struct MachineProfile {
  std::vector<ProductSpeed> products;  ///< in the type of the training
  double memory_bandwidth = 0;         ///< bytes per second, read and written, by a copy
  double elementwise = 0;              ///< the same by the operations of a block
  double attention_flops = 0;          ///< FLOP per second of attention, none behind the mask
  double straggler = 0;                ///< standard deviation of a rank's time, as a part of it
  double memory_bytes = 0;             ///< of the machine, over the ranks on it
  double call_seconds = 0;             ///< of the smallest operation
  bool ranks_copy = false;             ///< messages in a machine are the ranks' own work
  double network_steals = 0;           ///< replay::Cluster's
  int ranks_per_node = 1;              ///< on the machine of rank 0
  LinkSpeed intra;                     ///< between two ranks of a machine
  LinkSpeed inter;                     ///< between machines; as intra where there is one
};

/// @brief Seconds of one call on the slowest rank, while all ranks make it.
///
/// Rounds are shorter than what an operating system lets a thread run in one piece, and there are
/// many: the fastest one was not disturbed by other programs.
/// Collective. An interrupt ends it between two rounds.
[[nodiscard]] double seconds_of(const Communicator& world, const std::function<void()>& call);

/// @brief Seconds of one of `times` exchanges that all ranks make at the same time, each with its
/// group, on the rank that takes longest: groups share their machines' links. The fastest of several
/// rounds counts. Collective over world.
[[nodiscard]] double exchange_seconds(const Communicator& world,
                                      const std::function<void()>& exchange, int times);

/// @brief Seconds of a piece of work, in the median of several rounds, on the rank that takes longest.
/// Collective over world.
[[nodiscard]] double typical_seconds(const Communicator& world, const std::function<void()>& work);

/// @brief By how much the slowest rank's time of a piece of work lies above the mean of all ranks, as
/// the standard deviation of a replay::Cluster: mean excess over sqrt(2 ln ranks). Collective.
/// @param work  of some tens of milliseconds.
[[nodiscard]] double deviation_of(const Communicator& world, const std::function<void()>& work);

// The parts of a block, as measure_machine() measures them: as in a training, inputs of forward passes and
// gradients have just been written, while weights and what forward passes have saved come from the
// memory.

/// @brief Causal attention, forward and backward: floating-point operations per second of those that
/// planner::block_seconds() counts (none for keys behind the mask, 2.5 times as many backward).
/// Collective.
[[nodiscard]] double measure_attention(const Communicator& world, const BlockExtents& block);

/// @brief Norms, rotations, SwiGLU and residual sums of a block, forward and backward: bytes per
/// second of those that planner::block_seconds() counts. Collective.
[[nodiscard]] double measure_elementwise(const Communicator& world, const BlockExtents& block);

/// @brief The exchanges of a sequence-parallel region, of one token and of a micro-batch, with what is
/// copied around them: what a step of a ring takes without bytes, and with them, while all other groups
/// do the same. Collective over world.
[[nodiscard]] LinkSpeed measure_exchange(const Communicator& world, const Communicator& group,
                                         const BlockExtents& block);

/// @brief How much longer products take beside sums over a group, as a part of the time of these sums
/// alone, while all other groups do the same: 0 is perfect overlap, 1 none. Sums travel in buckets as
/// in a backward pass, each begun when a part of the products is done. Collective over world; the same
/// on every rank.
[[nodiscard]] double measure_stolen(const Communicator& world, const Communicator& group,
                                    DType dtype);

/// @brief Measures products, the parts of a block, memory and links on all ranks at once. Collective.
/// @return the same on every rank: of the slowest one.
/// Cost: some seconds; an interrupt ends it between two measurements.
[[nodiscard]] MachineProfile measure_machine(const Communicator& world, const BlockExtents& block);

/// @brief The profile as a cluster file, for --plan-cluster.
[[nodiscard]] std::string cluster_file(const MachineProfile& profile);

/// @brief The flags --profile-machine and --profile-out as a technique.
[[nodiscard]] std::unique_ptr<train::Technique> technique();

}  // namespace ultra::profile
