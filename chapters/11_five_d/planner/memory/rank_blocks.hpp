#pragma once
/// @file
/// Blocks and tables of one rank in closed form: the weights that it holds, and what a micro-batch
/// leaves in them between its passes.
///
/// Legend: t ranks of tp, N of ep; h hidden_size, f ffn_hidden_size, a num_heads, kv width of a rank's
/// keys, v = ceil(V / t), e bytes per element; tokens of a micro-batch on a rank of cp, l of them
/// between the matrices: tokens / t with sequence parallelism. Of experts: f their width, E experts, k
/// chosen and S shared ones.
///
/// They stay beside the record of a step, which says the same of our own blocks, for models and
/// programs that do not run here.

#include <cstddef>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/11_five_d/planner/layout/layout.hpp"

namespace ultra::planner {

/// @brief Weights of a rank's blocks.
struct BlockWeights {
  std::size_t experts = 0;  ///< of its routed experts: E / N of each block, 1/t of each
  std::size_t others = 0;   ///< all others
};

/// @brief What W has of the inputs and gradients that sequence parallelism gathers.
enum class Inputs {
  kSplit,     ///< the rank's part: they are gathered again
  kGathered,  ///< the whole, as B has gathered it
};

/// @brief What a rank of a layout has of a model.
class RankBlocks {
 public:
  /// @brief Both outlive this.
  RankBlocks(const ModelShape& model, const Layout& layout);

  /// @brief v h: weights of a token table.
  [[nodiscard]] std::size_t table_weights() const;
  /// @brief Weights of so many blocks.
  ///
  /// kGpt: (4 h^2 + 3 h + 2 h f + f) / t + 6 h a block; kLlama: (2 h^2 + 3 h f) / t + 2 h kv + 2 h; with
  /// experts 3 h f ((E / N) + S) / t + E h in the place of 3 h f / t.
  /// Source: Shoeybi et al. 2019, "Megatron-LM", arXiv 1909.08053, section 3.
  [[nodiscard]] BlockWeights block_weights(std::size_t dense, std::size_t with_experts) const;

  /// @brief Weights on a rank of so many in a Llama's matrices.
  /// @param split  of matrices that tp splits evenly.
  /// @param keys   of keys' and values' matrices.
  [[nodiscard]] std::size_t matrix_weights(std::size_t split, std::size_t keys) const;

  /// @brief Bytes that a dense block keeps of sequences of `seq_len` tokens.
  ///
  /// kGpt: l (4 e h + 2 h) + tokens (e (4 h + 2 f) + (2 e + 1) a s) / t, without scores if
  /// selective. kLlama: e l (4 h + 2) + e tokens ((2 h + 3 f + a) / t + 2 kv), without norms' outputs
  /// and the product if selective. kFull: e l h.
  /// Source: Korthikanti et al. 2022, arXiv 2205.05198, eq. 2 and 4 and table 2, for kGpt.
  [[nodiscard]] std::size_t dense_bytes(std::size_t seq_len, memory::Recompute mode) const;
  /// @brief The same of a block with experts, whose tokens are spread evenly.
  ///
  /// Without f, and e k tokens (2 h + 3 f / t) for rows, e tokens (E + k) + 8 k tokens for the router
  /// (and E more a sequence, or a token, with a balancing term, or a z-loss), 3 e S f tokens / t.
  [[nodiscard]] std::size_t expert_bytes(std::size_t seq_len, memory::Recompute mode) const;
  /// @brief Bytes of a block that waits for W, where a backward pass is split: the inputs of its
  /// matrices, and the gradients of their outputs, whatever was computed again.
  ///
  /// With n = l, or tokens with Inputs::kGathered: e (4 h n + tokens ((2 h + 3 f) / t + 2 kv)) of
  /// kLlama; of kGpt 4 h + 2 f for 2 h + 3 f, and no keys. With experts, without f: the router's h n
  /// and E tokens more, and e k tokens (2 h + 3 f / t) of rows, e (h n + 3 S f tokens / t) shared.
  /// Both norms' gradients, 2 h in f32 or wider, wait too.
  /// Source: Qi et al. 2023, arXiv 2401.10241, section 2.1, M_W.
  [[nodiscard]] std::size_t waiting_bytes(std::size_t seq_len, bool experts, Inputs inputs) const;
  /// @brief Bytes that embedding and head keep.
  ///
  /// kGpt: l h (a dropout mask); 2 e l h + 4 tokens v. kLlama: 4 tokens; e l (2 h + 1) + e tokens v.
  [[nodiscard]] memory::OutsideBytes outside_bytes(std::size_t seq_len) const;

 private:
  [[nodiscard]] std::size_t element() const;
  [[nodiscard]] std::size_t tokens(std::size_t seq_len) const;
  [[nodiscard]] std::size_t local_tokens(std::size_t seq_len) const;
  [[nodiscard]] std::size_t kv_width() const;
  [[nodiscard]] std::size_t llama_bytes(std::size_t seq_len, std::size_t ffn,
                                        memory::Recompute mode) const;
  [[nodiscard]] std::size_t gpt_bytes(std::size_t seq_len, memory::Recompute mode) const;

  const ModelShape& model_;
  const Layout& layout_;
  const memory::TransformerShape& shape_;
};

}  // namespace ultra::planner
