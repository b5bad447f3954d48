#pragma once
/// @file
/// wgmma with its left factor in registers and a right factor that lies by depth, as attention multiplies
/// weights and values; and products that overwrite their sums.
///
/// The left factor [64, 16] lies in registers as mma.sync's (kernels/simt/matrix_tiles.cuh): warp w of the
/// warpgroup has rows 16 w to 16 w + 15. Source: PTX ISA, "Register Fragments for
/// wgmma.mma_async.m64nNk16". The instruction reads them until it is waited for: hold_in_place() behind
/// the wait keeps the compiler from giving them to others before.

#include "kernels/hopper/wgmma.cuh"

#if defined(__CUDACC__)
#include "kernels/hopper/gpu/wgmma_registers.cuh"
#endif

namespace ultra::kernels::hopper {
namespace {

/// @brief A right factor [depth, columns] that lies by rows of the depth ("MN-major"), in boxes of 64
/// columns that are `box_bytes` apart.
///
/// Derivation. With the swizzle of 128 bytes, the unit of this order is 64 columns x 8 rows of the depth:
/// 8 rows of 128 bytes, 1024 bytes. PTX ISA, "Strides": the stride dimension's offset (bits 32 to 45)
/// leads from 8 rows of the depth to the next 8: they follow each other in a box, 1024 bytes. The leading
/// dimension's offset (bits 16 to 29) leads from 64 columns to the next 64: to the next box. An
/// instruction takes 16 rows of the depth, two units: the next one's begin 2048 bytes further, at a
/// multiple of 1024, so that the swizzle needs no base offset.
__device__ __forceinline__ unsigned long long describe_by_depth(const uint4* tile,
                                                                unsigned box_bytes) {
  constexpr unsigned long long kRowGroups = 1024 / 16;
  constexpr unsigned long long kSwizzle128 = 1;
  const unsigned long long boxes = box_bytes / 16;
  return (shared_address(tile) & 0x3ffffU) >> 4 | boxes << 16 | kRowGroups << 32 |
         kSwizzle128 << 62;
}

/// @brief What describe_by_depth() grows by for the next 16 rows of the depth.
constexpr unsigned long long kNextDepth = 2048 / 16;

}  // namespace
}  // namespace ultra::kernels::hopper
