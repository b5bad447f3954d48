#pragma once
/// @file
/// Tensor cores with their registers in sight, on every side: load_matrix_x4() and its kin (ldmatrix),
/// multiply_accumulate() (mma.sync), pack_bf16() and unpack_bf16(). tiles.cuh has the same tensor cores
/// with tiles whose layout nobody knows.
///
/// multiply_accumulate() is d [16, 8] = a [16, 16] b [16, 8] + c [16, 8]. With g = lane / 4 and
/// t = lane % 4, the elements of a lane are, the lower half of a register first:
///
///     a[0]: row g,     columns 2t, 2t + 1        b[0]: column g, rows 2t, 2t + 1
///     a[1]: row g + 8, columns 2t, 2t + 1        b[1]: column g, rows 2t + 8, 2t + 9
///     a[2]: row g,     columns 2t + 8, 2t + 9    d[0], d[1]: row g,     columns 2t, 2t + 1
///     a[3]: row g + 8, columns 2t + 8, 2t + 9    d[2], d[3]: row g + 8, columns 2t, 2t + 1
///
/// multiply_accumulate_e4m3() is d [16, 8] = a [16, 32] b [32, 8] + c with elements of a byte: where
/// above a register has columns or rows 2t and 2t + 1, it has 4t to 4t + 3; 8 further is 16 further.
///
/// load_matrix_x4() gives register i of lane l elements 2t and 2t + 1 of row g of matrix i; the
/// address of that row is what lane 8 i + g brings. Source: PTX ISA, "Matrix Fragments for
/// mma.m16n8k16" and "ldmatrix".

#if defined(__CUDACC__)
#include "kernels/simt/gpu/matrix_tiles.cuh"
#else
#include "kernels/simt/emulator/matrix_tiles.hpp"
#endif
