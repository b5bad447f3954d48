// One kernel twice: with the accessors and with plain CUDA. zero_cost.py compares their PTX.

#include "kernels/simt/simt.cuh"
#include "kernels/simt/small_floats.cuh"

namespace ultra::simt::test {

__global__ void accessors_kernel(const float* __restrict__ in, float* __restrict__ out,
                                 const bf16* __restrict__ weights, int n) {
  __shared__ float tile[32][33];
  auto* const rows = dynamic_shared<float4>();
  const int x = threadIdx.x;
  const int y = threadIdx.y;
  const int i = blockIdx.x * blockDim.x + x;
  const float element = ldg(&in[i]);
  sts(&tile[y][x], element);
  const float4 elements = ldg(&reinterpret_cast<const float4*>(in)[y]);
  sts(&rows[x], elements);
  __syncthreads();  // as in the other kernel
  float sum = warp_sum(lds(&tile[x][y]));
  if (branch(i < n)) {
    sum += lds(&rows[y]).w * __bfloat162float(ldg(&weights[i]));
    stg(&out[i], sum);
  }
}

__global__ void pointers_kernel(const float* __restrict__ in, float* __restrict__ out,
                                const bf16* __restrict__ weights, int n) {
  __shared__ float tile[32][33];
  extern __shared__ __align__(128) unsigned char storage[];
  auto* const rows = reinterpret_cast<float4*>(storage);
  const int x = threadIdx.x;
  const int y = threadIdx.y;
  const int i = blockIdx.x * blockDim.x + x;
  const float element = in[i];
  tile[y][x] = element;
  const float4 elements = reinterpret_cast<const float4*>(in)[y];
  rows[x] = make_float4(elements.x, elements.y, elements.z, elements.w);
  __syncthreads();  // as in the other kernel
  float sum = warp_sum(tile[x][y]);
  if (i < n) {
    sum += rows[y].w * __bfloat162float(weights[i]);
    out[i] = sum;
  }
}

}  // namespace ultra::simt::test
