#pragma once
/// @file
/// ldmatrix and mma.sync on a GPU. kernels/simt/emulator/matrix_tiles.hpp has the same for the emulator.

#include <cuda_bf16.h>

namespace ultra::simt {

/// @brief Loads four 8 x 8 matrices of 16-bit elements from shared memory: lane l brings the address of
/// row l % 8 of matrix l / 8, 16 bytes at a multiple of 16. All lanes of the warp call it.
__device__ __forceinline__ void load_matrix_x4(unsigned (&registers)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// @brief The same, each matrix transposed on its way: register i has elements g of rows 2t and 2t + 1.
__device__ __forceinline__ void load_matrix_x4_transposed(unsigned (&registers)[4],
                                                          const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// @brief Two matrices; only the addresses of lanes 0 to 15 count.
__device__ __forceinline__ void load_matrix_x2(unsigned (&registers)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(registers[0]), "=r"(registers[1])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// @brief Two matrices, each transposed on its way; only the addresses of lanes 0 to 15 count.
__device__ __forceinline__ void load_matrix_x2_transposed(unsigned (&registers)[2],
                                                          const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(registers[0]), "=r"(registers[1])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// @brief d = a b + c with bf16 a [16, 16] and b [16, 8], and c and d [16, 8] in float. d may be c. All
/// lanes of the warp call it.
__device__ __forceinline__ void multiply_accumulate(float (&d)[4], const unsigned (&a)[4],
                                                    const unsigned (&b)[2], const float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
        "f"(c[2]), "f"(c[3]));
}

/// @brief d = a b + c with e4m3 a [16, 32] and b [32, 8], and c and d [16, 8] in float. d may be c. All
/// lanes of the warp call it. GPUs before compute capability 8.9 have no such instruction, and stop.
__device__ __forceinline__ void multiply_accumulate_e4m3(float (&d)[4], const unsigned (&a)[4],
                                                         const unsigned (&b)[2],
                                                         const float (&c)[4]) {
#if __CUDA_ARCH__ >= 890
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
        "f"(c[2]), "f"(c[3]));
#else
  __trap();
#endif
}

/// @brief Two floats, rounded to bf16, in one register: `low` in the lower half, which is the lower
/// address.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
  unsigned packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

/// @brief The two bf16 of a register as floats: x from the lower half.
__device__ __forceinline__ float2 unpack_bf16(unsigned packed) {
  // A bf16 is the upper half of a float.
  return make_float2(__uint_as_float(packed << 16), __uint_as_float(packed & 0xffff0000U));
}

}  // namespace ultra::simt
