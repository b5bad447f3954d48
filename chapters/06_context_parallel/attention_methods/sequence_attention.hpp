#pragma once
/// @file
/// SequenceAttention: attention to the tokens of other ranks, and what travels for it.
///
/// N ranks, each with s tokens of each of b sequences; a query heads, g key/value heads of d elements.
/// Bytes aside, a rank sends in a block, forward and backward, in elements:
///
/// | method | what travels | forward | backward |
/// |---|---|---|---|
/// | ring | keys and values, from rank to rank; then their gradients | 2 (N-1) b s g d | 2 (2N-1) b s g d |
/// | all-gather | the same, at once | 2 (N-1) b s g d | 4 (N-1) b s g d |
/// | ulysses | query, key, value and output: tokens for heads | 2 (N-1)/N b s (a + g) d | the same |
///
/// A window of w tokens leaves steps of the ring empty, which are not sent: of N there are at most 1 + h
/// with contiguous chunks, 1 + 2 h with zig-zag, where h = ceil((w - 1) / c) chunks of c tokens.
/// Where values are the keys themselves, as absorbed latents are, ring and all-gather send half of that.
///
/// A ring of R ranks whose members are groups of U does both: the ring's figures with N = R for a / U
/// and g / U heads of U s tokens, and those of ulysses with N = U.

#include <memory>

#include "chapters/06_context_parallel/block_attention.hpp"
#include "chapters/06_context_parallel/sequence_group.hpp"
#include "common/nn/layer.hpp"

namespace ultra::context_parallel {

/// @brief A way to attend to the keys of other ranks.
/// Bodies: ring_attention.cpp, gathered_attention.cpp, head_scattered_attention.cpp beside it.
class SequenceAttention {
 public:
  SequenceAttention() = default;
  SequenceAttention(const SequenceAttention&) = delete;
  SequenceAttention& operator=(const SequenceAttention&) = delete;
  virtual ~SequenceAttention() = default;

  /// @brief The output of this rank's queries; `saved` receives what backward needs.
  /// Collective over the ranks that share the sequences.
  [[nodiscard]] virtual Tensor forward(const nn::Qkv& in, const AttentionScope& scope,
                                       nn::Saved& saved) = 0;

  /// @brief Gradients of this rank's rotated query, key and value; consumes `saved`. Sums that are
  /// not rounded yet may be f32 where the activations are bf16 or f16.
  /// Collective over the ranks that share the sequences.
  [[nodiscard]] virtual nn::QkvGradients backward(const Tensor& d_output,
                                                  const AttentionScope& scope,
                                                  nn::Saved& saved) = 0;
};

/// @brief The finished sum in the type of the activations.
[[nodiscard]] PartialAttention rounded(const PartialAttention& whole, DType dtype);

/// @brief Keeps query, key, value, output and log-sum-exp: what attention of own queries needs.
void save_attention(const nn::Qkv& in, const PartialAttention& partial, nn::Saved& saved);

/// @brief What save_attention() kept.
struct KeptAttention {
  nn::Qkv in;                ///< of this rank
  PartialAttention partial;  ///< over all keys
};

/// @brief Takes it from the tree.
[[nodiscard]] KeptAttention take_attention(nn::Saved& saved);

/// @brief Keys and values travel a ring: ring_forward(), ring_backward().
class RingAttention : public SequenceAttention {
 public:
  /// @brief On these ranks; one rank alone sends nothing.
  explicit RingAttention(SequenceGroup ring) : ring_(std::move(ring)) {}
  [[nodiscard]] Tensor forward(const nn::Qkv& in, const AttentionScope& scope,
                               nn::Saved& saved) override;
  [[nodiscard]] nn::QkvGradients backward(const Tensor& d_output, const AttentionScope& scope,
                                          nn::Saved& saved) override;

 private:
  SequenceGroup ring_;
};

/// @brief All keys and values are gathered, and again for the backward pass; their gradients are
/// added up and scattered.
///
/// Memory: keys and values of all tokens while a block is computed, and in backward their gradients.
/// Source: Llama 3, 2024, arXiv 2407.21783, section 3.3.2: with few key/value heads they are small
/// beside the attention itself, and any mask is easy.
class GatheredAttention : public SequenceAttention {
 public:
  /// @brief Gathers on these ranks.
  explicit GatheredAttention(SequenceGroup group) : group_(std::move(group)) {}
  [[nodiscard]] Tensor forward(const nn::Qkv& in, const AttentionScope& scope,
                               nn::Saved& saved) override;
  [[nodiscard]] nn::QkvGradients backward(const Tensor& d_output, const AttentionScope& scope,
                                          nn::Saved& saved) override;

 private:
  [[nodiscard]] KeyValues gather(const Tensor& key, const Tensor& value) const;

  SequenceGroup group_;
};

/// @brief Each rank gets all tokens of the group for a part of the heads, and attends with these; the
/// outputs go back.
///
/// The group's ranks must divide query heads and key/value heads. Keeps the output twice: of its heads,
/// for attention's gradient, and of its tokens, as the next matrix's input.
/// Source: Jacobs et al. 2023, "DeepSpeed-Ulysses", arXiv 2309.14509, section 3; Fang & Zhao 2024,
/// "USP", arXiv 2405.07719, for a ring behind it.
class HeadScatteredAttention : public SequenceAttention {
 public:
  /// @param heads  the ranks that exchange tokens for heads.
  /// @param inner  attends with all tokens of these, and sees those of others if there are any.
  HeadScatteredAttention(SequenceGroup heads, std::unique_ptr<SequenceAttention> inner)
      : heads_(std::move(heads)), inner_(std::move(inner)) {}
  [[nodiscard]] Tensor forward(const nn::Qkv& in, const AttentionScope& scope,
                               nn::Saved& saved) override;
  [[nodiscard]] nn::QkvGradients backward(const Tensor& d_output, const AttentionScope& scope,
                                          nn::Saved& saved) override;

 private:
  SequenceGroup heads_;
  std::unique_ptr<SequenceAttention> inner_;
};

}  // namespace ultra::context_parallel
