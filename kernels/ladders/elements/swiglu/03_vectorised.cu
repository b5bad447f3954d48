// Rung 3: accesses of 16 bytes.
//
// Idea:   a thread does four neighbouring elements. Rows do not matter here: the arrays are
//         contiguous, and only the last one to three elements of all are left over, for one thread
//         each.
// Gain:   a quarter of the requests; 32 bytes in flight per thread instead of 8.
// Limit:  memory. Less only in the epilogue of the product that makes gate and up.

#include "kernels/ladders/elements/swiglu/silu.cuh"
#include "kernels/ladders/elements/swiglu/swiglu.hpp"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::swiglu {
namespace {

using namespace simt;

constexpr int kThreads = 256;
constexpr int kWidth = 4;

__global__ void vectorised_kernel(const float* __restrict__ gate, const float* __restrict__ up,
                                  float* __restrict__ product, int count) {
  using Floats = Pack<float, kWidth>;
  const int packs = count / kWidth;
  const int index = blockIdx.x * kThreads + threadIdx.x;
  if (branch(index < packs)) {
    Floats values = ldg(&reinterpret_cast<const Floats*>(gate)[index]);
    const Floats factors = ldg(&reinterpret_cast<const Floats*>(up)[index]);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      values.values[i] = silu(values.values[i]) * factors.values[i];
    }
    stg(&reinterpret_cast<Floats*>(product)[index], values);
  } else if (const int rest = packs * kWidth + (index - packs); rest < count) {
    const float left = ldg(&gate[rest]);
    const float right = ldg(&up[rest]);
    stg(&product[rest], silu(left) * right);
  }
}

}  // namespace

template <>
void vectorised<kExecutor>(const Problem& problem, const Queue& queue) {
  const int count = problem.tokens * problem.ffn;
  launch(vectorised_kernel,
         {.name = "vectorised",
          .grid = {.x = ceil_div(count / kWidth + count % kWidth, kThreads)},
          .block = {.x = kThreads},
          .queue = queue},
         problem.gate, problem.up, problem.product, count);
}

}  // namespace ultra::kernels::swiglu
