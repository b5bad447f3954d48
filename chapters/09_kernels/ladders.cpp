#include "chapters/09_kernels/ladders.hpp"

#include "chapters/09_kernels/attention/attention_backward_bf16_ladder.hpp"
#include "chapters/09_kernels/attention/attention_backward_ladder.hpp"
#include "chapters/09_kernels/attention/attention_bf16_ladder.hpp"
#include "chapters/09_kernels/attention/attention_ladder.hpp"
#include "chapters/09_kernels/attention/packed_sequences_ladder.hpp"
#include "chapters/09_kernels/attention/rope_ladder.hpp"
#include "chapters/09_kernels/attention/softmax_ladder.hpp"
#include "chapters/09_kernels/matmul/matmul_bf16_ladder.hpp"
#include "chapters/09_kernels/matmul/matmul_fp32_ladder.hpp"
#include "chapters/09_kernels/matmul/transpose_ladder.hpp"
#include "chapters/09_kernels/memory_bound/adamw_ladder.hpp"
#include "chapters/09_kernels/memory_bound/cross_entropy_ladder.hpp"
#include "chapters/09_kernels/memory_bound/divergence_ladder.hpp"
#include "chapters/09_kernels/memory_bound/reduction_ladder.hpp"
#include "chapters/09_kernels/memory_bound/rms_norm_backward_ladder.hpp"
#include "chapters/09_kernels/memory_bound/rms_norm_ladder.hpp"
#include "chapters/09_kernels/memory_bound/swiglu_backward_ladder.hpp"
#include "chapters/09_kernels/memory_bound/swiglu_ladder.hpp"

namespace ultra::ladders {

std::vector<std::unique_ptr<Ladder>> all_ladders() {
  std::vector<std::unique_ptr<Ladder>> ladders;
  ladders.push_back(matmul_fp32_ladder());
  ladders.push_back(matmul_bf16_ladder());
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
  ladders.push_back(attention_ladder());
  ladders.push_back(attention_bf16_ladder());
  ladders.push_back(attention_backward_ladder());
  ladders.push_back(attention_backward_bf16_ladder());
  return ladders;
}

}  // namespace ultra::ladders
