#pragma once
/// @file
/// A warpgroup's sums on their way to global memory through TMA: rounded to bf16 or half into boxes of
/// shared memory, from which the copy engine stores them while the warpgroup goes on.

#include "kernels/hopper/store_matrix.cuh"
#include "kernels/hopper/wgmma.cuh"

namespace ultra::kernels::hopper {
namespace {

/// @brief Boxes of 64 rows for a warpgroup's sums [64, 64 boxes].
template <int boxes>
using StagedBoxes = uint4[boxes][kRows * kRowUnits];

/// @brief Sums [64, 16 steps] rounded, as store_matrices() and wgmma's left factors in
/// registers have them.
template <int steps>
using PackedSums = unsigned[steps][4];

/// @brief Puts rounded sums of a warpgroup into its boxes, which are swizzled as TMA and wgmma expect
/// it.
template <int boxes, int steps>
__device__ __forceinline__ void stage_packed(StagedBoxes<boxes>& staged,
                                             const PackedSums<steps>& packed) {
  static_assert(2 * steps == boxes * kRowUnits);
  const int lane = threadIdx.x % 32;
  const int row = threadIdx.x % kWarpgroup / 32 * 16 + lane % 16;
#pragma unroll
  for (int step = 0; step < steps; ++step) {  // two units, which are 16 columns of 16 rows
    const int unit = 2 * step % kRowUnits + lane / 16;
    store_matrices(&staged[2 * step / kRowUnits][row * kRowUnits + (unit ^ row % kRowUnits)],
                   packed[step]);
  }
}

/// @brief Stores a warpgroup's sums, rounded to T, through its boxes. All its threads call it; before the kernel
/// ends, its first thread must wait_until_boxes_are_read().
/// @param name   a named barrier of this warpgroup's own.
/// @param store  begins to store the boxes; the warpgroup's first thread calls it.
template <int boxes, typename T = simt::bf16, int count, typename Store>
__device__ __forceinline__ void store_through_boxes(StagedBoxes<boxes>& staged,
                                                    const float (&sums)[count], int name,
                                                    const Store& store) {
  const bool is_first = threadIdx.x % kWarpgroup == 0;
  if (is_first) {
    wait_until_boxes_are_read();
  }
  __syncwarp();
  synchronise_warpgroup(name);  // without it, others overwrite boxes that TMA still reads
  PackedSums<count / 8> packed;
#pragma unroll
  for (int i = 0; i < count / 2; ++i) {
    packed[i / 4][i % 4] = simt::pack_pair<T>(sums[2 * i], sums[2 * i + 1]);
  }
  stage_packed<boxes>(staged, packed);
  show_to_tma();
  __syncwarp();
  synchronise_warpgroup(name);  // without it, TMA reads boxes that others have not filled
  if (is_first) {
    store();
    commit_boxes();
  }
}

}  // namespace
}  // namespace ultra::kernels::hopper
