#include "common/ops/embedding.hpp"

#include "common/ops/backend/backend.hpp"
#include "common/ops/dtype_check.hpp"
#include "common/ops/token_check.hpp"

namespace ultra::ops {

Tensor embedding(const Tensor& table, const Tensor& tokens) {
  expect_tensor("tokens of embedding", tokens, {tokens.size(0), tokens.size(1)}, DType::kI32);
  expect_token_ids("token", tokens, table.size(0));
  return embedding_part(table, tokens, 0);
}

void embedding_backward_into(const Tensor& d_table, const Tensor& d_output, const Tensor& tokens) {
  expect_token_ids("token", tokens, d_table.size(0));
  embedding_part_backward_into(d_table, d_output, tokens, 0);
}

Tensor embedding_part(const Tensor& part, const Tensor& tokens, std::size_t first_token) {
  expect_tensor("tokens of embedding", tokens, {tokens.size(0), tokens.size(1)}, DType::kI32);
  const Tensor out =
      Tensor::empty(part.device(), {tokens.size(0), tokens.size(1), part.size(1)}, part.dtype());
  backend_of(part.device()).embedding(out, part, tokens, first_token);
  return out;
}

void embedding_part_backward_into(const Tensor& d_part, const Tensor& d_output,
                                  const Tensor& tokens, std::size_t first_token) {
  expect_converts("d_output of embedding", d_output,
                  {tokens.size(0), tokens.size(1), d_part.size(1)}, d_part.dtype());
  backend_of(d_part.device()).embedding_backward(d_part, d_output, tokens, first_token);
}

}  // namespace ultra::ops
