#pragma once
/// @file
/// TMA, the copy engine of Hopper: one thread moves a box of a matrix between global and shared memory.
/// Source: PTX ISA, "cp.async.bulk.tensor".
///
/// All boxes are 64 bf16 wide: rows of 128 bytes, swizzled by the engine: unit u (16 bytes) of row r lies
/// in place u xor (r % 8). Boxes begin at multiples of 1024 bytes of shared memory, where r is 0
/// modulo 8. What lies outside the matrix arrives as zeros, counts as bytes all the same, and is not
/// written back.

#include "kernels/hopper/barrier.cuh"

namespace ultra::kernels::hopper {

/// @brief A head of a sequence, of those that a tensor map knows.
struct HeadAt {
  int sequence;  ///< of the batch
  int head;      ///< of the sequence
};

}  // namespace ultra::kernels::hopper

#if defined(__CUDACC__)

#include <cuda.h>

#include "kernels/hopper/barrier.cuh"

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

/// @brief The same of a matrix for each head: the box lies in that of `head`.
__device__ __forceinline__ void fetch_box(uint4* box, const TensorMap& map, const HeadAt& head,
                                          int row, int column, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared_address(box)),
      "l"(&map), "r"(column), "r"(row), "r"(head.head), "r"(head.sequence),
      "r"(shared_address(&barrier))
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

/// @brief The same of a matrix for each head: into that of `head`, and nothing outside of it.
__device__ __forceinline__ void store_box(const TensorMap& map, const HeadAt& head, int row,
                                          int column, const uint4* box) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(
          &map),
      "r"(column), "r"(row), "r"(head.head), "r"(head.sequence), "r"(shared_address(box))
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

#else

#include "kernels/hopper/barrier.cuh"
#include "kernels/simt/emulator/language/vector_types.hpp"

namespace ultra::kernels::hopper {

/// @brief What TMA is told of a matrix.
using TensorMap = simt::emulator::TensorMap;

namespace {

/// @brief Begins to copy the box at (row, column) to shared memory; its bytes count at `barrier`.
inline void fetch_box(uint4* box, const TensorMap& map, int row, int column, Barrier& barrier,
                      const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::fetch_box({.shared = box,
                             .map = &map,
                             .position = {column, row},
                             .barrier = &barrier,
                             .blocks = 0,
                             .place = {.file = file, .line = line}});
}

/// @brief The same of a matrix for each head: the box lies in that of `head`.
inline void fetch_box(uint4* box, const TensorMap& map, const HeadAt& head, int row, int column,
                      Barrier& barrier, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  simt::emulator::fetch_box({.shared = box,
                             .map = &map,
                             .position = {column, row, head.head, head.sequence},
                             .barrier = &barrier,
                             .blocks = 0,
                             .place = {.file = file, .line = line}});
}

/// @brief A box of a single matrix into all blocks of the cluster whose bit of `blocks` is 1.
inline void fetch_box_for_all(uint4* box, const TensorMap& map, int row, int column,
                              Barrier& barrier, unsigned short blocks,
                              const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::fetch_box({.shared = box,
                             .map = &map,
                             .position = {column, row},
                             .barrier = &barrier,
                             .blocks = blocks,
                             .place = {.file = file, .line = line}});
}

/// @brief Shows TMA what this thread has stored to shared memory.
inline void show_to_tma(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::show_to_engines({.file = file, .line = line});
}

/// @brief Begins to copy a box of shared memory to (row, column) of a matrix.
inline void store_box(const TensorMap& map, int row, int column, const uint4* box,
                      const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::store_box({.shared = const_cast<uint4*>(box),
                             .map = &map,
                             .position = {column, row},
                             .barrier = nullptr,
                             .blocks = 0,
                             .place = {.file = file, .line = line}});
}

/// @brief The same of a matrix for each head: into that of `head`.
inline void store_box(const TensorMap& map, const HeadAt& head, int row, int column,
                      const uint4* box, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  simt::emulator::store_box({.shared = const_cast<uint4*>(box),
                             .map = &map,
                             .position = {column, row, head.head, head.sequence},
                             .barrier = nullptr,
                             .blocks = 0,
                             .place = {.file = file, .line = line}});
}

/// @brief Makes a group of the boxes that this thread has begun to store.
inline void commit_boxes() { simt::emulator::commit_boxes(); }

/// @brief Waits until all groups of boxes of this thread have been read from shared memory.
inline void wait_until_boxes_are_read(const char* file = __builtin_FILE(),
                                      int line = __builtin_LINE()) {
  simt::emulator::wait_for_boxes(0, {.file = file, .line = line});
}

}  // namespace
}  // namespace ultra::kernels::hopper

#endif

namespace ultra::kernels::hopper {
namespace {

/// @brief Units of 16 bytes in a row of a box.
constexpr int kRowUnits = 8;

/// @brief What boxes are aligned to in shared memory.
constexpr unsigned kBoxAlignment = 1024;

/// @brief Dynamic shared memory as a T at the next multiple of kBoxAlignment: ask for bytes_of<T>().
template <typename T>
__device__ __forceinline__ T& aligned_shared() {
  auto* const storage = simt::dynamic_shared<unsigned char>();
  const unsigned past = shared_address(storage) % kBoxAlignment;
  return *reinterpret_cast<T*>(storage + (past == 0 ? 0 : kBoxAlignment - past));
}

/// @brief What to ask for, so that a T fits behind its alignment.
template <typename T>
constexpr std::size_t bytes_of() {
  return sizeof(T) + kBoxAlignment;
}

}  // namespace
}  // namespace ultra::kernels::hopper
