#pragma once
/// @file
/// Attention in f64, row by row, with the error that rounding allows each element: what the ladders
/// of attention are judged by.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "chapters/09_kernels/ladder.hpp"
#include "chapters/09_kernels/report/verdict.hpp"
#include "kernels/ladders/attention/attention/attention.hpp"

namespace ultra::ladders {

/// @brief An extent of a shape, for what counts in std::size_t.
[[nodiscard]] constexpr std::size_t size(int extent) { return static_cast<std::size_t>(extent); }

/// @brief The shape of all problems of attention.
using AttentionShape = kernels::attention::Shape;

/// @brief The random inputs of a problem, on the host; layouts as in kernels::attention::Problem.
struct AttentionInputs {
  /// @brief Odd seeds are causal, even ones are not.
  AttentionShape shape;
  /// @brief Seed they were drawn from.
  std::uint64_t seed;
  /// @brief Queries: standard normal; 40 times that where the seed has bit 1, so that a softmax
  /// overflows unless it subtracts the row's largest score.
  std::vector<float> q;
  /// @brief Keys, standard normal.
  std::vector<float> k;
  /// @brief Values, standard normal.
  std::vector<float> v;
};

/// @brief Roundings that a rung makes beyond those of fp32.
struct AttentionRounding {
  /// @brief The relative error of storing a weight or a gradient of scores before it is multiplied.
  double weights = 0.0;
  /// @brief The relative error of storing an element of an output.
  double output = 0.0;
};

/// @brief The extents of all problems of attention: batch, kv_heads, group, seq_len, head_dim.
/// @param emulated  the emulator's defaults, in this order.
[[nodiscard]] std::vector<Dimension> attention_dimensions(const Sizes& emulated);

/// @brief The inputs of a problem; sizes in the order of attention_dimensions().
[[nodiscard]] AttentionInputs draw_attention(const Sizes& sizes, std::uint64_t seed);

/// @brief The same, rounded to bf16.
[[nodiscard]] AttentionInputs draw_attention_bf16(const Sizes& sizes, std::uint64_t seed);

/// @brief What a rung does at least: of a causal problem, which odd seeds give, half of the pairs.
struct AttentionWork {
  /// @brief Products of 2 head_dim operations per pair of a query and a key that it sees.
  double products;
  /// @brief Tensors like q that are read or written once; as many are like k. One more is lse.
  double tensors;
  /// @brief Bytes of an element of these tensors; lse has 4.
  double element_bytes;
};

/// @brief The least that such a problem costs.
[[nodiscard]] Cost attention_cost(const Sizes& sizes, std::uint64_t seed,
                                  const AttentionWork& work);

/// @brief Why rungs that hold rows of fp32 in registers refuse; empty when they do not.
[[nodiscard]] std::string refuse_long_attention_rows(const Sizes& sizes);

/// @brief Why rungs that load rows of fp32 in vectors and hold them on the chip refuse; empty when
/// they do not.
[[nodiscard]] std::string refuse_attention_tiles(const Sizes& sizes);

/// @brief Why rungs in bf16 refuse a problem; empty when they do not.
[[nodiscard]] std::string refuse_attention_bf16(const Sizes& sizes);

/// @brief The dot product of two rows of equal length.
[[nodiscard]] ExactSum exact_dot(std::span<const float> left, std::span<const float> right);

/// @brief One row's softmax, in f64.
class AttentionRow {
 public:
  /// @brief Row `row` of all heads' rows.
  AttentionRow(const AttentionInputs& inputs, std::size_t row);

  /// @brief How many keys it sees: the first ones.
  [[nodiscard]] std::size_t keys() const { return scores_.size(); }
  /// @brief The row of `k` and `v` that holds its key `j`.
  [[nodiscard]] std::size_t key_row(std::size_t j) const { return first_key_row_ + j; }
  /// @brief scale q . k_j
  [[nodiscard]] double score(std::size_t j) const { return scores_[j]; }
  /// @brief How far an fp32 score can be off.
  [[nodiscard]] double score_error(std::size_t j) const { return score_errors_[j]; }
  /// @brief log(sum over j of exp(score_j))
  [[nodiscard]] double lse() const { return lse_; }
  /// @brief Compares what a rung wrote for this row.
  /// @param o    [head_dim] of this row.
  void compare(std::span<const float> o, float lse, const AttentionRounding& rounding,
               Verdict& verdict) const;

 private:
  const AttentionInputs& inputs_;
  std::size_t row_;
  std::size_t first_key_row_;
  std::vector<double> scores_;
  std::vector<double> score_errors_;
  double largest_ = 0.0;
  double lse_ = 0.0;
};

/// @brief Judges the outputs of a forward pass, a sample of the rows where all would take too long.
/// @param o    [batch, kv_heads * group, seq_len, head_dim].
/// @param lse  [batch, kv_heads * group, seq_len].
[[nodiscard]] Verdict judge_attention(const AttentionInputs& inputs, std::span<const float> o,
                                      std::span<const float> lse,
                                      const AttentionRounding& rounding);

}  // namespace ultra::ladders
