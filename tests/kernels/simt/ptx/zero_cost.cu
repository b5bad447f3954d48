// One kernel twice: with the accessors and with plain CUDA. zero_cost.py compares their PTX. And one
// that calls each function that stands for one instruction once: the script counts them.

#include "kernels/simt/async_copy.cuh"
#include "kernels/simt/matrix_tiles.cuh"
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

__global__ void instructions_kernel(const bf16* __restrict__ in, float* __restrict__ out,
                                    int bytes) {
  auto* const rows = dynamic_shared<uint4>();
  copy_async<16>(&rows[threadIdx.x], in);
  copy_async<8>(&rows[threadIdx.x], in, bytes);
  commit_copies();
  wait_copies<1>();
  unsigned left[4];
  unsigned left_transposed[4];
  unsigned right[2];
  unsigned right_transposed[2];
  load_matrix_x4(left, &rows[threadIdx.x]);
  load_matrix_x4_transposed(left_transposed, &rows[threadIdx.x]);
  load_matrix_x2(right, &rows[threadIdx.x]);
  load_matrix_x2_transposed(right_transposed, &rows[threadIdx.x]);
  left[0] ^= left_transposed[0];
  right[0] ^= right_transposed[0];
  float sums[4] = {};
  multiply_accumulate(sums, left, right, sums);
  out[threadIdx.x] = sums[0] + __uint_as_float(pack_bf16(sums[1], sums[2]));
}

}  // namespace ultra::simt::test
