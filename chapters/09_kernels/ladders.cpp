#include "chapters/09_kernels/ladders.hpp"

namespace ultra::ladders {

std::vector<std::unique_ptr<Ladder>> all_ladders() {
  std::vector<std::unique_ptr<Ladder>> ladders;
  ladders.push_back(matmul_fp32_ladder());
  ladders.push_back(matmul_bf16_ladder());
  ladders.push_back(matmul_turned_ladder());
  ladders.push_back(split_k_ladder());
  ladders.push_back(matmul_fp8_ladder());
  ladders.push_back(transpose_ladder());
  ladders.push_back(divergence_ladder());
  ladders.push_back(packed_sequences_ladder());
  ladders.push_back(reduction_ladder());
  ladders.push_back(softmax_ladder());
  ladders.push_back(rms_norm_ladder());
  ladders.push_back(rms_norm_backward_ladder());
  ladders.push_back(rope_ladder());
  ladders.push_back(swiglu_ladder());
  ladders.push_back(swiglu_backward_ladder());
  ladders.push_back(cross_entropy_ladder());
  ladders.push_back(adamw_ladder());
  ladders.push_back(rms_norm_bf16_ladder());
  ladders.push_back(swiglu_bf16_ladder());
  ladders.push_back(adamw_bf16_ladder());
  ladders.push_back(quantize_fp8_ladder());
  ladders.push_back(token_permutation_ladder());
  ladders.push_back(grouped_matmul_ladder());
  ladders.push_back(linear_cross_entropy_ladder());
  ladders.push_back(linear_cross_entropy_backward_ladder());
  ladders.push_back(attention_ladder());
  ladders.push_back(attention_bf16_ladder());
  ladders.push_back(attention_backward_ladder());
  ladders.push_back(attention_backward_bf16_ladder());
  ladders.push_back(attention_varlen_ladder());
  ladders.push_back(attention_backward_varlen_ladder());
  ladders.push_back(attention_decode_ladder());
  ladders.push_back(small_launches_ladder());
  return ladders;
}

}  // namespace ultra::ladders
