#pragma once
// Kernels of the emulator's tests, on every side: defined in the .cu files beside this one.

#include "kernels/simt/buffer.hpp"
#include "kernels/simt/config.hpp"
#include "kernels/simt/report.hpp"
#include "kernels/simt/side.hpp"

namespace ultra::simt::test {

// The three first rungs of a matrix product; all compute c = a b for n x n floats.
enum class MatmulKernel { kNaive, kCoalesced, kTiled };

// n a multiple of 32.
template <Side side>
Report matmul(MatmulKernel kernel, const Buffer<float, side>& a, const Buffer<float, side>& b,
              Buffer<float, side>& c, int n);

// The same tiled product with plain accesses, to see what the accessors cost.
template <Side side>
Report matmul_without_accessors(const Buffer<float, side>& a, const Buffer<float, side>& b,
                                Buffer<float, side>& c, int n);

enum class TransposePadding { kNone, kOneColumn };

// out = transpose(in), (rows, columns), any shape.
template <Side side>
Report transpose(TransposePadding padding, const Buffer<float, side>& in, Buffer<float, side>& out,
                 int rows, int columns);

// sums[row] = sum over the row, one block of any whole warps per row: shuffles, dynamic shared
// memory and an atomic count of the rows that are done.
template <Side side>
Report row_sums(const Buffer<float, side>& in, Buffer<float, side>& sums, Buffer<int, side>& done,
                int rows, int columns);

// d = a b for 16 x 16 tiles of bf16: (16, depth) (depth, 16), one warp.
template <Side side, typename T>
Report tile_product(const Buffer<T, side>& a, const Buffer<T, side>& b, Buffer<float, side>& d,
                    int depth);

}  // namespace ultra::simt::test
