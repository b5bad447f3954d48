#pragma once
/// @file
/// Softmax whose terms are in several places, on a device with streams: nobody waits; or on a CPU
/// whose sums follow trees. Their caller does what happens between the places.

#include "common/ops/attention.hpp"
#include "common/ops/matmul.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief The logits of a part of the vocabulary, on a device with streams.
struct LogitsOfPart {
  Tensor logits;   ///< [.., columns] of f32 or f64, contiguous; columns after the part are padding
  Tensor targets;  ///< [..] of i32; a token with kNoTarget has no loss
  Range vocabulary;  ///< the tokens [begin, end) of the part
};

/// @brief [tokens] The highest logit of each token; minus infinity in a part without tokens.
/// @throws InternalError on another CPU, whose code reads the logits itself.
[[nodiscard]] Tensor highest_logits(const LogitsOfPart& part);

/// @brief Replaces logits by e^(logit - highest).
/// @param highest  [tokens] over all parts.
/// @return [2, tokens]: the sums of these, and the target's logit where this part has it, else 0.
[[nodiscard]] Tensor exponentials_of_logits(const LogitsOfPart& part, const Tensor& highest);

/// @brief loss = or += the cross-entropy of the whole vocabulary over `normalizer`; replaces the part's
/// exponentials by the gradient.
/// @param loss     [digits_of_sums()] of f64, on the logits' device.
/// @param highest  [tokens] over all parts.
/// @param sums     [2, tokens] over all parts.
void cross_entropy_of_parts(const Tensor& loss, const LogitsOfPart& part, const Tensor& highest,
                            const Tensor& sums, double normalizer, Write write);

/// @brief The same of logits that are all in one place, of any type, where sums follow trees: as in parts.
void cross_entropy_by_trees(const Tensor& loss, const Tensor& logits, const Tensor& targets,
                            double normalizer, Write write);

/// @brief Adds attention over other keys to attention over some, on a device with streams.
/// @param into  output [batch, seq, heads, head_dim] and log_sum_exp [batch, heads, seq], contiguous, of
///              one type, f32 or f64; a query without keys has output 0 and log_sum_exp -infinity.
/// @throws InternalError on the CPU.
void merge_attention_on_device(const AttentionResult& into, const AttentionResult& part);

}  // namespace ultra::ops
