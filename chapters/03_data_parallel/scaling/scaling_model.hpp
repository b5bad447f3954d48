#pragma once
/// @file
/// The scaling model: how long a data-parallel step takes on a machine that is not here.
///
/// It is put together from what runs here: the model's parameters in their order, assign_buckets()
/// (exercise 03.2), and the step lists of chapter 02's all-reduce on the link simulator.
///
/// The rules:
/// - A token costs each weight 2 FLOP in the forward and 4 in the backward pass, at the speed
///   peak * MFU. The attention's own S x S products are not counted; an MFU that counts only
///   6 FLOP per weight and token makes up for them.
/// - The backward pass takes the weights in backward order, each as long as its size. A tied token
///   table is multiplied first, as the output projection, and its gradient is ready last.
/// - A bucket may leave when the gradients in it are ready. One stream sends the buckets in order, and
///   does not slow the computation down.
/// - A rank's sequences are cut into micro-batches; only the last one's backward pass makes final
///   gradients, so it alone hides communication (exercise 03.4).
/// - The step ends when both have: the optimizer's update, the data and what differs from rank to rank
///   take no time. Memory is not looked at.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/02_collectives/simulator/topology.hpp"
#include "chapters/03_data_parallel/bucket_assignment.hpp"

namespace ultra::data_parallel {

/// @brief The gradients that a model's backward pass makes.
struct ModelSizes {
  std::string name;                     ///< for tables
  std::vector<std::size_t> parameters;  ///< elements of each, in forward order
  memory::Embeddings embeddings = memory::Embeddings::kUntied;  ///< tied: parameter 0 is the table

  /// @brief Elements of all parameters.
  [[nodiscard]] std::size_t total() const;
};

/// @brief The parameters of a model, without making it: those of nn::Model for kLlama; for kGpt those
/// of Hugging Face's `GPT2LMHeadModel`.
[[nodiscard]] ModelSizes sizes_of(const memory::TransformerShape& shape);

/// @brief What stays as replicas are added.
enum class BatchRule {
  kGlobal,   ///< the sequences of a step: each replica gets fewer (strong scaling)
  kPerRank,  ///< the sequences of a replica: the global batch grows (weak scaling)
};

/// @brief A question to the scaling model.
struct ScalingRequest {
  ModelSizes model;                           ///< what is trained
  collectives::Topology machine;              ///< one full node of it; replicas fill such nodes
  std::string algorithm = "two-level";        ///< of all_reduce, from chapter 02's table
  std::vector<int> dp;                        ///< numbers of replicas, ascending
  std::size_t seq_len = 4096;                 ///< tokens per sequence
  BatchRule batch_rule = BatchRule::kGlobal;  ///< what `batch` counts
  std::size_t batch = 256;                    ///< sequences per step
  std::size_t micro_batch = 0;                ///< sequences per pass; 0: all of a replica's at once
  std::size_t element_bytes = 2;              ///< of a gradient on the link
  double peak_flops = 989e12;                 ///< FLOP per second of one GPU
  double mfu = 0.4;                           ///< of it reached while nothing waits for a link
  double bucket_bytes = 25e6;                 ///< capacity of a bucket

  /// @brief FLOP per second that a replica reaches.
  [[nodiscard]] double flops() const { return peak_flops * mfu; }
  /// @brief Checks that there is something to predict.
  /// @throws ConfigError naming the flag, its value and what would work.
  void validate() const;
};

/// @brief The prediction for one number of replicas.
struct ScalingPoint {
  int dp = 1;                             ///< replicas
  int nodes = 1;                          ///< that they fill
  std::size_t rank_batch = 0;             ///< sequences of the replica that has most
  std::size_t tokens_per_rank = 0;        ///< the same in tokens
  double forward_seconds = 0;             ///< of all micro-batches
  double backward_seconds = 0;            ///< of all micro-batches
  double hiding_seconds = 0;              ///< of the last one's backward pass
  double communication_seconds = 0;       ///< of all buckets
  double exposed_seconds = 0;             ///< of it after the backward pass
  double step_seconds = 0;                ///< forward + backward + exposed
  double tokens_per_second = 0;           ///< of all replicas
  double tokens_per_second_per_rank = 0;  ///< of each
  double efficiency = 0;                  ///< the latter, relative to dp 1
  double overlap_ratio = 0;               ///< communication_seconds / hiding_seconds
  double tokens_to_hide = 0;              ///< of a replica's last micro-batch, for a ratio of 1
  double bus_bandwidth = 0;               ///< of all buckets together, bytes per second; 0 for dp 1

  bool operator==(const ScalingPoint&) const = default;
};

/// @brief A number of replicas that was left out.
struct SkippedPoint {
  int dp = 1;          ///< replicas
  std::string reason;  ///< one sentence

  bool operator==(const SkippedPoint&) const = default;
};

/// @brief The answer.
struct ScalingReport {
  ScalingRequest request;             ///< what was asked
  std::vector<Bucket> buckets;        ///< the same for every number of replicas
  std::vector<ScalingPoint> points;   ///< in the order of the request
  std::vector<SkippedPoint> skipped;  ///< in the order of the request

  /// @brief The first point whose communication takes longer than the pass that should hide it;
  /// nullptr when there is none.
  [[nodiscard]] const ScalingPoint* first_link_bound() const;
};

/// @brief When each parameter's gradient is ready, seconds from the start of the backward pass.
[[nodiscard]] std::vector<double> gradient_ready_seconds(const ModelSizes& model,
                                                         double backward_seconds);

/// @brief When each bucket may leave: with the last of its gradients.
[[nodiscard]] std::vector<double> bucket_ready_seconds(std::span<const Bucket> buckets,
                                                       std::span<const double> gradient_ready);

/// @brief When one stream that takes the buckets in order has sent the last of them.
/// @param ready    seconds from which on each may leave.
/// @param seconds  that each takes.
[[nodiscard]] double stream_end(std::span<const double> ready, std::span<const double> seconds);

/// @brief The machine that as many replicas run on: a part of the node, or as many as they need.
[[nodiscard]] collectives::Topology machine_for(int dp, const collectives::Topology& node);

/// @brief Seconds of the all-reduce of each bucket on the link simulator.
///
/// Cost: one simulation for each size that occurs.
/// @param algorithm  of all_reduce, from chapter 02's table; must suit the machine.
[[nodiscard]] std::vector<double> all_reduce_seconds(std::span<const Bucket> buckets,
                                                     std::size_t element_bytes,
                                                     std::string_view algorithm,
                                                     const collectives::Topology& machine);

/// @brief Predicts the step for every number of replicas.
///
/// Shares of a global batch differ by at most one sequence, as in share_of_batch(); the largest sets
/// the pace. Left out, with the reason: more replicas than sequences, replicas that do not fill
/// nodes, and those that the algorithm does not suit.
/// @throws ConfigError when the request is not valid, or no point is left.
[[nodiscard]] ScalingReport predict_scaling(const ScalingRequest& request);

}  // namespace ultra::data_parallel
