#pragma once
/// @file
/// TMA on a GPU. kernels/hopper/emulator/tma.hpp has the same for the emulator.

#include <cuda.h>

#include "kernels/hopper/gpu/barrier.cuh"

namespace ultra::kernels::hopper {

/// @brief What TMA is told of a matrix.
using TensorMap = CUtensorMap;

namespace {

/// @brief Begins to copy the box at (row, column) to shared memory; its bytes count at `barrier`.
__device__ __forceinline__ void fetch_box(uint4* box, const TensorMap& map, int row, int column,
                                          Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(box)),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(&barrier))
      : "memory");
}

/// @brief The same of a stack of matrices: the box lies in matrix `layer`.
__device__ __forceinline__ void fetch_box(uint4* box, const TensorMap& map, int layer, int row,
                                          int column, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(box)),
      "l"(&map), "r"(column), "r"(row), "r"(layer), "r"(shared_address(&barrier))
      : "memory");
}

/// @brief A box of a single matrix into all blocks of the cluster whose bit of `blocks` is 1: it arrives in
/// the same place of each, and counts at the barrier in the same place of each.
__device__ __forceinline__ void fetch_box_for_all(uint4* box, const TensorMap& map, int row,
                                                  int column, Barrier& barrier,
                                                  unsigned short blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(box)),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(&barrier)), "h"(blocks)
      : "memory");
}

/// @brief Shows TMA what this thread has stored to shared memory.
__device__ __forceinline__ void show_to_tma() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// @brief Begins to copy a box of shared memory to (row, column) of a matrix.
__device__ __forceinline__ void store_box(const TensorMap& map, int row, int column,
                                          const uint4* box) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(column), "r"(row), "r"(shared_address(box))
      : "memory");
}

/// @brief The same of a stack of matrices: into matrix `layer`, and nothing outside of it.
__device__ __forceinline__ void store_box(const TensorMap& map, int layer, int row, int column,
                                          const uint4* box) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map),
      "r"(column), "r"(row), "r"(layer), "r"(shared_address(box))
      : "memory");
}

/// @brief Makes a group of the boxes that this thread has begun to store.
__device__ __forceinline__ void commit_boxes() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// @brief Waits until all groups of boxes of this thread have been read from shared memory.
__device__ __forceinline__ void wait_until_boxes_are_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

}  // namespace
}  // namespace ultra::kernels::hopper
