#include "chapters/05_tensor_sequence_parallel/absorbed_matrices.hpp"

#include "common/ops/matmul.hpp"

namespace ultra::tensor_parallel {
namespace {

using ops::Transpose;

/// A head's matrix, of [heads, rows, columns].
Tensor of_head(const Tensor& all, std::size_t head) {
  return all.slice(0, {head, head + 1}).view({all.size(1), all.size(2)});
}

}  // namespace

// [region absorb_matrices]
AbsorbedMatrices absorb_matrices(const Tensor& query, const Tensor& key_value, const Tensor& output,
                                 const nn::LatentAttention& sizes) {
  const std::size_t heads = output.size(1) / sizes.v_head_dim;
  const auto matrices = [&](std::size_t rows, std::size_t columns) {
    return Tensor::empty(query.device(), {heads, rows, columns}, query.dtype());
  };
  const AbsorbedMatrices absorbed{matrices(key_value.size(1), query.size(1)),
                                  matrices(output.size(0), key_value.size(1))};
  for (std::size_t head = 0; head < heads; ++head) {
    const std::size_t queries = head * sizes.qk_head_dim();
    const std::size_t keys = head * (sizes.qk_nope_head_dim + sizes.v_head_dim);
    const std::size_t values = keys + sizes.qk_nope_head_dim;
    const std::size_t columns = head * sizes.v_head_dim;
    const Tensor w_q = query.slice(0, {queries, queries + sizes.qk_nope_head_dim});
    const Tensor w_k = key_value.slice(0, {keys, keys + sizes.qk_nope_head_dim});
    const Tensor w_v = key_value.slice(0, {values, values + sizes.v_head_dim});
    const Tensor w_o = output.slice(1, {columns, columns + sizes.v_head_dim});
    ops::matmul_into(of_head(absorbed.score, head), w_k, Transpose::kYes, w_q, Transpose::kNo);
    ops::matmul_into(of_head(absorbed.output, head), w_o, Transpose::kNo, w_v, Transpose::kNo);
  }
  return absorbed;
}
// [/region]

}  // namespace ultra::tensor_parallel
