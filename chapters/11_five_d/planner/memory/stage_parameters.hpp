#pragma once
/// @file
/// The parameters and activations of one stage of a layout, from the closed forms of a rank's blocks.

#include "chapters/11_five_d/planner/layout/layout.hpp"

namespace ultra::planner {

/// @brief Parameters that a rank holds before any are sharded.
struct StageParameters {
  double experts = 0;   ///< of its routed experts: the ranks of dp x cp / ep hold the same ones
  double others = 0;    ///< all others: the ranks of dp x cp hold the same ones
  double matrices = 0;  ///< of the others, linear maps in blocks: what an optimizer may want whole
  double frozen = 0;    ///< of the others, those without gradient and states
  double frozen_matrices = 0;  ///< of the matrices, likewise

  /// @brief All.
  [[nodiscard]] double total() const { return experts + others; }
  /// @brief Of the others, those that are trained.
  [[nodiscard]] double trained() const { return others - frozen; }
  /// @brief Of the matrices, those that are trained.
  [[nodiscard]] double trained_matrices() const { return matrices - frozen_matrices; }
  /// @brief The same as a part of all matrices in blocks.
  [[nodiscard]] double trained_part() const {
    return matrices > 0 ? 1 - frozen_matrices / matrices : 1;
  }
};

/// @brief Numbers that AdamW keeps on a rank, of a stage that holds these weights, and the workload's
/// rule does not.
[[nodiscard]] double missing_states(const Workload& work, const Layout& layout,
                                    const StageParameters& held);

/// @brief Bytes of one of AdamW's two states of a weight.
[[nodiscard]] double state_bytes(memory::NumberFormats precision);

/// @brief The stage that has the last norm, the output table and the loss: the last one, but the first
/// of a V-shaped schedule, whose way ends where it began.
[[nodiscard]] std::size_t output_stage(const Layout& layout);

/// @brief Those of a stage: its blocks, the input table on the first, the output table and the last
/// norm on the output_stage() (a tied table on both). The blocks with experts are the last ones of a model.
/// @param blocks  blocks_of_stages().
[[nodiscard]] StageParameters stage_parameters(const ModelShape& model, const Layout& layout,
                                               const std::vector<std::size_t>& blocks,
                                               std::size_t stage);

/// @brief Of a stage's blocks, those with experts.
[[nodiscard]] std::size_t expert_blocks(const ModelShape& model,
                                        const std::vector<std::size_t>& blocks, std::size_t stage);

/// @brief Bytes that one block keeps of a micro-batch between its passes; where a backward pass is
/// split, at most: recomputation does not make less of what waits for W.
/// @param mode     none: the whole block; the layout's own is Layout::recompute.
/// @param experts  a block with experts, whose tokens are spread evenly.
/// RankBlocks' form for the tokens of a rank of cp. Flash attention keeps no scores; elementwise operations that are not fused keep what lies between them.
[[nodiscard]] double kept_bytes(const Workload& work, const Layout& layout,
                                const Software& software, memory::Recompute mode, bool experts);

/// @brief Bytes that the tables keep of a micro-batch.
struct TableBytes {
  double embedding = 0;  ///< on the first stage
  double head = 0;       ///< on the last
  double loss = 0;       ///< of those, what is gone when the loss's backward pass is over
};

/// @brief The tables' bytes by RankBlocks' form, with what the loss has of logits at its worst moment, and
/// the head's input as tp gathered it where that stays.
[[nodiscard]] TableBytes table_bytes(const Workload& work, const Layout& layout,
                                     const Software& software);

}  // namespace ultra::planner
