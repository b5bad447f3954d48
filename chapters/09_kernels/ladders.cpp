#include "chapters/09_kernels/ladders.hpp"

#include "chapters/09_kernels/attention_backward_bf16_ladder.hpp"
#include "chapters/09_kernels/attention_backward_ladder.hpp"
#include "chapters/09_kernels/attention_bf16_ladder.hpp"
#include "chapters/09_kernels/attention_ladder.hpp"
#include "chapters/09_kernels/matmul_fp32_ladder.hpp"

namespace ultra::ladders {

std::vector<std::unique_ptr<Ladder>> all_ladders() {
  std::vector<std::unique_ptr<Ladder>> ladders;
  ladders.push_back(matmul_fp32_ladder());
  ladders.push_back(attention_ladder());
  ladders.push_back(attention_bf16_ladder());
  ladders.push_back(attention_backward_ladder());
  ladders.push_back(attention_backward_bf16_ladder());
  return ladders;
}

}  // namespace ultra::ladders
