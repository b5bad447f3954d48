#include "common/ops/embedding.hpp"

#include "common/ops/backend/backend.hpp"
#include "common/ops/token_check.hpp"

namespace ultra::ops {

Tensor embedding(const Tensor& table, const Tensor& tokens) {
  expect_tensor("tokens of embedding", tokens, {tokens.size(0), tokens.size(1)}, DType::kI32);
  expect_token_ids("token", tokens, table.size(0));
  const Tensor out =
      Tensor::empty(table.device(), {tokens.size(0), tokens.size(1), table.size(1)}, table.dtype());
  backend_of(table.device()).embedding(out, table, tokens);
  return out;
}

void embedding_backward_into(const Tensor& d_table, const Tensor& d_output, const Tensor& tokens) {
  expect_tensor("d_output of embedding", d_output,
                {tokens.size(0), tokens.size(1), d_table.size(1)}, d_table.dtype());
  expect_token_ids("token", tokens, d_table.size(0));
  backend_of(d_table.device()).embedding_backward(d_table, d_output, tokens);
}

}  // namespace ultra::ops
