#pragma once
/// @file
/// Memory per rank of a model with experts, by closed form.
///
/// Legend: h hidden_size, f width of an expert, E experts, k chosen and S shared ones; N ranks of
/// ep, t of tp; b sequences and n tokens of a micro-batch on a rank (of all ranks of tp together);
/// e bytes per element.

#include <cstddef>

#include "chapters/04_zero/zero_memory.hpp"
#include "chapters/06_context_parallel/estimate/context_memory.hpp"
#include "chapters/08_expert_parallel/estimate/moe_models.hpp"

namespace ultra::expert_parallel {

/// @brief Into how many parts a model's work is cut.
struct LocalMoe {
  context_parallel::LocalModel share;  ///< of sequences and matrices
  std::size_t ep = 1;                  ///< ranks that hold the experts together

  /// @brief n: tokens of so many sequences.
  [[nodiscard]] std::size_t tokens(std::size_t sequences) const {
    return sequences * share.layout.local_seq_len();
  }
};

/// @brief Rows of a rank in one block and micro-batch.
struct ExpertRows {
  std::size_t sent = 0;      ///< of its tokens, to whatever rank: k n unless some are dropped
  std::size_t received = 0;  ///< for the experts that it holds

  bool operator==(const ExpertRows&) const = default;
};

/// @brief Rows where every expert gets as many: k n sent and received.
[[nodiscard]] ExpertRows even_rows(const MoeConfig& moe, const LocalMoe& rank,
                                   std::size_t sequences);

/// @brief The most rows that a rank can get: all N n tokens, each for min(k, E / N) of its experts;
/// with a capacity no more than its experts have places.
[[nodiscard]] ExpertRows most_rows(const MoeConfig& moe, const LocalMoe& rank,
                                   std::size_t sequences);

/// @brief Parameters that a rank holds.
struct RankParameters {
  std::size_t experts = 0;  ///< of its routed experts: E / N of each block, 1/t of each
  std::size_t others = 0;   ///< all others

  bool operator==(const RankParameters&) const = default;
};

/// @brief Those of a model, before any are sharded. Biases of the selection are counted.
[[nodiscard]] RankParameters rank_parameters(const MoeModel& model, const LocalMoe& rank);

/// @brief Bytes of states per rank: experts are sharded over the ranks that hold the same ones.
/// @param sharding  over the ranks of dp times cp.
[[nodiscard]] zero::RankBytes state_bytes(const RankParameters& parameters,
                                          const zero::Sharding& sharding, std::size_t ep,
                                          memory::NumberFormats precision);

/// @brief Bytes that a block with experts keeps between its passes.
///
/// Attention, norms and the input of the feed-forward part as chapter 06 has them, and
/// - rows:   e (received (h + 3 f / t) + sent h): inputs, gate, up, product; outputs;
/// - router: e n (E + k) + 8 n k: affinities and weights; choices and destinations, i32; e b E with
///   a balancing term, e n E with a z-loss;
/// - shared: 3 e n S f / t.
/// Selective recomputation drops norms' outputs and products.
/// @pre Blocks are ours: attention with grouped queries.
[[nodiscard]] std::size_t moe_block_bytes(const MoeModel& model, std::size_t sequences,
                                          memory::NumberFormats precision, memory::Recompute mode,
                                          const LocalMoe& rank, const ExpertRows& rows);

/// @brief Bytes that a block with experts leaves between B and W, where a pipeline splits its
/// backward pass: the inputs of its matrices, of what was an activation before.
///
/// e n (2 h + h / t + S f / t) + e received (h + f / t). With sequence parallelism without the terms
/// of h: what is gathered is no activation.
[[nodiscard]] std::size_t moe_waiting_bytes(const MoeModel& model, std::size_t sequences,
                                            memory::NumberFormats precision, const LocalMoe& rank,
                                            const ExpertRows& rows);

/// @brief Bytes that wait for W beside those: the gradients of the matrices' outputs and of the
/// norms' weights, and inputs that were gathered.
///
/// e n (h + (h + 2 k) / t + E) + e received (h + 2 f / t), and 2 h sums; with shared experts
/// e n (h + 2 S f / t). With sequence parallelism e n h for the queries, the router and the shared
/// experts each.
[[nodiscard]] std::size_t moe_deferred_bytes(const MoeModel& model, std::size_t sequences,
                                             memory::NumberFormats precision, const LocalMoe& rank,
                                             const ExpertRows& rows);

/// @brief Highest bytes of activations within one micro-batch's forward and backward pass, with the
/// same rows in every block. Too low in fp8 where the peak lies within a block of wide shared experts:
/// inputs that stand unpacked beside their codes are not counted.
[[nodiscard]] std::size_t moe_peak_bytes(const MoeModel& model, std::size_t sequences,
                                         memory::NumberFormats precision,
                                         const memory::RecomputeConfig& config,
                                         const LocalMoe& rank, const ExpertRows& rows);

}  // namespace ultra::expert_parallel
