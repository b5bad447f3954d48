#pragma once
/// @file
/// What one block, and the tables around the blocks, take of a GPU for a micro-batch.

#include "chapters/11_five_d/planner/layout/layout.hpp"
#include "common/replay/cluster/cluster.hpp"

namespace ultra::planner {

/// @brief Seconds by what they are spent on; exchanges as far as nothing hides them.
struct PassSeconds {
  double products = 0;          ///< linear layers
  double attention = 0;         ///< scores and values
  double elementwise = 0;       ///< norms, activations, residual sums, adding up gradients
  double tensor_exchange = 0;   ///< between the ranks of tp
  double context_exchange = 0;  ///< between those of cp
  double expert_exchange = 0;   ///< between those of ep
  double host_exchange = 0;     ///< with the host's memory: activations

  /// @brief All together.
  [[nodiscard]] double total() const {
    return products + attention + elementwise + tensor_exchange + context_exchange +
           expert_exchange + host_exchange;
  }
  /// @brief What is no exchange.
  [[nodiscard]] double compute() const { return products + attention + elementwise; }
  /// @brief Adds the other's, `times` over.
  void add(const PassSeconds& other, double times = 1);
};

/// @brief The passes of one block, or of the tables, for one micro-batch on one GPU.
struct BlockSeconds {
  PassSeconds forward;          ///< F
  PassSeconds recompute;        ///< what backward computes again
  PassSeconds backward;         ///< B and W together, without recompute
  double weight_gradients = 0;  ///< of backward, W: what may be done later

  /// @brief F, what is computed again, B and W.
  [[nodiscard]] double together() const {
    return forward.total() + recompute.total() + backward.total();
  }
};

/// @brief A training of a model on a cluster by a layout and a program: what all predictions ask.
struct Question {
  Workload work;            ///< what is trained
  replay::Cluster cluster;  ///< on what
  Software software;        ///< by which program
};

/// @brief One block.
/// @param experts  of a mixture: a block with experts, not a dense one.
///
/// Products by product_seconds(): one for query, key and value, one behind attention, and those of
/// the feed-forward part; backward twice as many. Attention by the published rate of its kernel
/// behind a causal mask, 2.5 times as much backward; or, where scores are stored, as products and
/// passes over the scores. Elementwise work as bytes that it reads and writes, see the source.
/// Exchanges of tp: four rings of b s h elements forward and backward, with sequence parallelism
/// two more gathers backward, which the weight gradient hides where the software can.
/// Source: Korthikanti et al. 2022, arXiv 2205.05198, sections 4 and 5, for what is exchanged and
/// computed again; Grattafiori et al. 2024, "Llama 3", arXiv 2407.21783, section 3.3.2, for cp.
[[nodiscard]] BlockSeconds block_seconds(const Question& question, const Layout& layout,
                                         bool experts);

/// @brief Final norm, output table and loss.
[[nodiscard]] BlockSeconds head_seconds(const Question& question, const Layout& layout);

/// @brief What tp exchanges for its parts of the input table; the lookup itself takes no time.
[[nodiscard]] BlockSeconds embedding_seconds(const Question& question, const Layout& layout);

}  // namespace ultra::planner
