#pragma once
// Kernels of the emulator's tests, on every executor: defined in the .cu files beside this one.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

namespace ultra::simt::test {

// The three first rungs of a matrix product; all compute c = a b for n x n floats.
enum class MatmulKernel { kNaive, kCoalesced, kTiled };

// n a multiple of 32.
template <Executor executor>
void matmul(MatmulKernel kernel, const float* a, const float* b, float* c, int n,
            const Queue& queue = {});

// The same tiled product with plain accesses, to see what the accessors cost.
template <Executor executor>
void matmul_without_accessors(const float* a, const float* b, float* c, int n,
                              const Queue& queue = {});

enum class TransposePadding { kNone, kOneColumn };

// out = transpose(in), (rows, columns), any shape.
template <Executor executor>
void transpose(TransposePadding padding, const float* in, float* out, int rows, int columns,
               const Queue& queue = {});

// sums[row] = sum over the row, one block of any whole warps per row: shuffles, dynamic shared
// memory and an atomic count of the rows that are done.
template <Executor executor>
void row_sums(const float* in, float* sums, int* done, int rows, int columns,
              const Queue& queue = {});

// d = a b for 16 x 16 tiles of bf16: (16, depth) (depth, 16), one warp.
template <Executor executor, typename T>
void tile_product(const T* a, const T* b, float* d, int depth, const Queue& queue = {});

// d = a b, (16, depth) (depth, 8). b is stored (8, depth), or (depth, 8) if `transposed`; depth is any
// multiple of 2. The small floats are other types for nvcc, so they may not stand in the signature of
// what both compilers link.
struct MatrixProduct {
  const bf16* a;
  const bf16* b;
  float* d;
  int depth;
  bool transposed;
};

// Copies in the background, a ring of two tiles, matrices loaded as the tensor cores want them.
template <Executor executor>
void matrix_product(const MatrixProduct& product, const Queue& queue = {});

}  // namespace ultra::simt::test
