#pragma once
/// @file
/// Table look-up of token vectors.

#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief Row tokens[b, s] of the table for each token.
/// @param table   [vocab, hidden].
/// @param tokens  [batch, seq] of i32.
/// @return [batch, seq, hidden], of the table's type.
/// @throws ShapeError when a token is not in [0, vocab).
[[nodiscard]] Tensor embedding(const Tensor& table, const Tensor& tokens);

/// @brief Adds each row of d_output to the row of d_table that its token names.
/// @param d_table   [vocab, hidden], added to; the caller has set it.
/// @param d_output  [batch, seq, hidden]; of f32, bf16 and f16 it may be another than d_table.
/// Rows are summed in f32 or f64.
void embedding_backward_into(const Tensor& d_table, const Tensor& d_output, const Tensor& tokens);

/// @brief Look-up in a part of a table; the tokens of the other parts give rows of zeros.
///
/// Summed over all parts, that is the look-up in the whole table.
/// @param part         [rows, hidden], the rows of tokens [first_token, first_token + rows).
/// @return [batch, seq, hidden].
[[nodiscard]] Tensor embedding_part(const Tensor& part, const Tensor& tokens,
                                    std::size_t first_token);

/// @brief Adds each row of d_output whose token has a row in this part of the table to that row.
/// @param d_part  [rows, hidden], the rows of tokens [first_token, first_token + rows); added to.
void embedding_part_backward_into(const Tensor& d_part, const Tensor& d_output,
                                  const Tensor& tokens, std::size_t first_token);

}  // namespace ultra::ops
