#pragma once
/// @file
/// Why tensor parallelism stays inside a node: the throughput of a training step over the number of
/// ranks, on a machine that is not here.
///
/// The rules:
/// - What a rank computes and exchanges for a micro-batch is in micro_batch_work.hpp; exchanges
///   take what the link simulator says of chapter 02's step lists (exchange_cost.hpp).
/// - Products run at peak * MFU, whatever the size of a rank's part; elementwise work at the
///   memory's bandwidth. Both wait for every exchange and every exchange for them: all is added up.
///   With Hide::kWeightGradients an input gradient travels during the weight gradient's product.
/// - Ranks fill nodes; each exchange has the links for itself.
/// - The step is one micro-batch forward and backward. The optimizer's update, the norms' gradients
///   (a sum over ranks, once per step, with sequence parallelism) and the data take no time. Memory
///   is not looked at.
///
/// What to expect of it: beside the Playbook's figure (playbook_figures()) it is within a tenth,
/// with the MFU that chapter 03 assumes. That close, it owes something to luck: between nodes, much
/// hangs on how exchanges cross. One ring through one NIC would be far slower than what was
/// measured; a ring that keeps all NICs busy at once (--scale-tp-machine h100-striped
/// --scale-tp-algorithm ring), faster.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/02_collectives/simulator/topology.hpp"
#include "chapters/05_tensor_sequence_parallel/scaling/exchange_cost.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"

namespace ultra::tensor_parallel {

/// @brief One bar of the Playbook's figure.
struct PlaybookFigure {
  int tp = 1;                             ///< ranks, tensor and sequence parallel
  std::size_t micro_batch = 1;            ///< the most sequences that fit into memory
  double tokens_per_second_per_rank = 0;  ///< measured

  bool operator==(const PlaybookFigure&) const = default;
};

/// Who says so.
inline constexpr std::string_view kPlaybookSource =
    "The Ultra-Scale Playbook (Hugging Face, 2025), figure of throughput and maximum batch size "
    "with "
    "TP and SP: a 3B model, 4096 tokens per sequence, nodes of 8 H100";

/// Tokens per sequence of the figure.
inline constexpr std::size_t kPlaybookSeqLen = 4096;

/// @brief The figure: tp 2, 4, 8, 16 and 32.
[[nodiscard]] std::span<const PlaybookFigure> playbook_figures();

/// @brief The bar of that tp, if there is one.
[[nodiscard]] std::optional<PlaybookFigure> find_playbook_figure(int tp);

/// @brief A model for "3B", called playbook-3b.
///
/// The figure does not say which dimensions it has. These are those of the model of 3.57e9
/// parameters in the Playbook's other benchmarks.
/// Source: huggingface/nanotron, scripts/scaling_benchmarks.py.
[[nodiscard]] const memory::TransformerShape& playbook_model();

/// @brief What runs while ranks exchange.
enum class Hide : std::uint8_t {
  kNothing,          ///< nothing
  kWeightGradients,  ///< a column-parallel matrix's weight gradient, beside its input gradient
};

/// @brief "nothing" or "weight-gradients".
[[nodiscard]] std::string_view to_string(Hide hide);

/// @brief A question to the model.
struct TpScalingRequest {
  memory::TransformerShape model;              ///< what is trained
  collectives::Topology machine;               ///< one full node of it; ranks fill such nodes
  std::vector<int> tp;                         ///< numbers of ranks, ascending
  std::vector<std::size_t> micro_batch = {4};  ///< sequences: one number, or one for each tp
  std::size_t seq_len = 4096;                  ///< tokens per sequence
  SequenceParallel sequence_parallel = SequenceParallel::kOn;  ///< between the matrices
  Hide hide = Hide::kNothing;                                  ///< what runs during exchanges
  ExchangeAlgorithm algorithm = ExchangeAlgorithm::kTwoLevel;  ///< in one node a ring either way
  std::size_t element_bytes = 2;      ///< of an activation, in memory and on the link
  double peak_flops = 989e12;         ///< FLOP per second of one GPU
  double mfu = 0.4;                   ///< of it that matrix products reach
  double memory_bandwidth = 3.35e12;  ///< bytes per second of one GPU's memory

  /// @brief FLOP per second that products reach.
  [[nodiscard]] double flops() const { return peak_flops * mfu; }
  /// @brief Sequences of the micro-batch for tp[index].
  [[nodiscard]] std::size_t micro_batch_of(std::size_t index) const {
    return micro_batch.size() == 1 ? micro_batch.front() : micro_batch[index];
  }
  /// @brief Whether it is what the Playbook's figure answers, micro-batches apart: its model,
  /// tokens per sequence, sequence parallelism, and nodes of 8 GPUs with an H100's speed.
  [[nodiscard]] bool is_the_playbooks() const;
  /// @brief Checks that there is something to predict.
  /// @throws ConfigError naming the flag, its value and what would work.
  void validate() const;
};

/// @brief The prediction for one number of ranks.
struct TpScalingPoint {
  int tp = 1;                                      ///< ranks
  int nodes = 1;                                   ///< that they fill
  std::size_t micro_batch = 1;                     ///< sequences
  double product_seconds = 0;                      ///< of matrix products
  double elementwise_seconds = 0;                  ///< of what tp does not split
  double communication_seconds = 0;                ///< of all exchanges
  double exposed_seconds = 0;                      ///< of them while nothing else runs
  double intra_bytes = 0;                          ///< that a rank sends inside its node
  double inter_bytes = 0;                          ///< that a rank sends to other nodes
  double step_seconds = 0;                         ///< products + elementwise + exposed
  double tokens_per_second_per_rank = 0;           ///< of each
  double one_node_tokens_per_second_per_rank = 0;  ///< if a node had as many GPUs
  double communication_share = 0;                  ///< exposed / step
  std::optional<double> ratio_to_previous{};  ///< tokens per second and rank; none for the first
  std::optional<PlaybookFigure> published{};  ///< of the same question

  bool operator==(const TpScalingPoint&) const = default;
};

/// @brief The answer.
struct TpScalingReport {
  TpScalingRequest request;            ///< what was asked
  std::vector<TpScalingPoint> points;  ///< in the order of the request

  /// @brief The first point on more than one node; nullptr when there is none.
  [[nodiscard]] const TpScalingPoint* first_across_nodes() const;
};

/// @brief Predicts the step for every number of ranks.
/// @throws ConfigError when the request is not valid.
/// Cost: two simulations for each kind of exchange and number of ranks.
[[nodiscard]] TpScalingReport predict_tp_scaling(const TpScalingRequest& request);

}  // namespace ultra::tensor_parallel
