#pragma once
/// @file
/// Multi-head latent attention: keys and values from one short vector per token.

#include <memory>
#include <vector>

#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/layers/latent_heads.hpp"

namespace ultra::nn {

/// @brief Self-attention whose keys and values are made from latents (LatentAttention).
///
/// | step | weight (config.json's names) | of |
/// |---|---|---|
/// | down, and a norm on each latent | q_a_proj, kv_a_proj_with_mqa | a token: whole on every rank of tp |
/// | up | q_b_proj (q_proj without a latent of queries), kv_b_proj | heads: column-parallel |
/// | output | o_proj | heads: row-parallel |
///
/// Plain form: kv_b_proj makes a key and a value for each head, and the core gets as many heads of both.
/// Absorbed form: with W_K and W_V the parts of kv_b_proj for a head, q . (W_K c) = (W_K^T q) . c and
/// sum_j p_j W_V c_j = W_V sum_j p_j c_j. So the core gets one key for all heads, which is its value too:
/// the latent and the rotated part, kv_lora_rank + qk_rope_head_dim elements of a token.
/// Saved subtrees: "down", "query_norm" where queries have a latent, "query", "latent_norm", "core",
/// "output"; and "key_value" (plain), or "query_heads" and "attended" (absorbed).
/// Source: arXiv 2405.04434, section 2.1; the code beside arXiv 2412.19437,
/// inference/model.py.
/// Deviation: of rotated elements, the first half is paired with the second, as everywhere here; there,
/// neighbours are.
class LatentSelfAttention : public Layer {
 public:
  /// @param layer  index of the block, for the names of the weights.
  LatentSelfAttention(const BuildContext& context, std::size_t layer);

  [[nodiscard]] Tensor forward(const Tensor& x, Saved& saved) override;
  [[nodiscard]] Tensor backward(const Tensor& d_y, Saved& saved) override;
  [[nodiscard]] std::vector<Parameter*> parameters() override;

 private:
  /// Gradients of what enters the heads.
  struct Entered {
    Tensor latent;   ///< [batch, local_seq, kv_lora_rank], normalised
    Tensor rotated;  ///< [batch, local_seq, qk_rope_head_dim]
  };

  [[nodiscard]] Tensor attend_plain(const Tensor& query, const Tensor& latent,
                                    const Tensor& rotated, Saved& saved);
  [[nodiscard]] Tensor attend_absorbed(const Tensor& query, const Tensor& latent,
                                       const Tensor& rotated, Saved& saved);
  [[nodiscard]] Entered backward_plain(const Tensor& d_heads, const Tensor& d_query, Saved& saved);
  [[nodiscard]] Entered backward_absorbed(const Tensor& d_heads, const Tensor& d_query,
                                          Saved& saved);

  /// Queries as the core takes them.
  /// @param unrotated  [batch, seq, heads, ..], as wide as keys are there.
  [[nodiscard]] Tensor arranged(const Tensor& query, const Tensor& unrotated) const;
  /// [batch, seq, heads, kv_lora_rank], in memory of their own.
  [[nodiscard]] Tensor unrotated_of(const Tensor& rows) const;

  /// The core, and how rows stand in it.
  struct Core {
    std::unique_ptr<AttentionCore> attention;
    CoreRows rows;
  };

  LatentAttention sizes_;
  std::unique_ptr<Projections> down_;
  std::unique_ptr<Layer> query_norm_;  // null: queries are made from the input
  std::unique_ptr<Projections> query_;
  std::unique_ptr<Layer> latent_norm_;
  std::unique_ptr<Projections> key_value_;
  std::unique_ptr<Layer> shared_;
  Core core_;
  std::unique_ptr<Layer> output_;
};

}  // namespace ultra::nn
