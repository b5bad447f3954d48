#pragma once
/// @file
/// Bounds check of tensors of token ids, shared by the operations that index with them. On a device
/// with streams the host would have to wait for them: there nothing is checked, and the kernels do not
/// read outside of a table.

#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief Throws ShapeError unless every element of an i32 tensor is in [0, vocab_size).
/// @param name  what the message calls the tensor, for example "token".
void expect_token_ids(const char* name, const Tensor& tokens, std::size_t vocab_size);

/// @brief Throws ShapeError unless every element of an i32 tensor is in [0, vocab_size) or
/// kNoTarget.
void expect_targets(const Tensor& targets, std::size_t vocab_size);

}  // namespace ultra::ops
