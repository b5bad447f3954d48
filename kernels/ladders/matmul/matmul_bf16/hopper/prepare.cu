// What the launchers of Hopper's rungs refuse.

#include "kernels/ladders/matmul/matmul_bf16/hopper/prepare.cuh"

#include <string>

#include "kernels/simt/error.hpp"

namespace ultra::kernels::matmul_bf16 {

template <>
void expect_hopper<kExecutor>(const Problem& problem) {
  hopper::expect_hopper("rungs 1 to 6 run on any GPU since the A100");
  if (problem.columns % 8 != 0 || problem.depth % 8 != 0) {
    throw simt::SimtError(simt::Fault::kLaunch, "columns x depth are " +
                                                    std::to_string(problem.columns) + " x " +
                                                    std::to_string(problem.depth) +
                                                    ", expected multiples of 8: TMA's rows begin "
                                                    "at multiples of 16 bytes. Hint: rungs 1 to "
                                                    "4 take any shape");
  }
}

}  // namespace ultra::kernels::matmul_bf16
