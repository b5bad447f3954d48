#pragma once
/// @file
/// TMA for the emulator (kernels/simt/emulator/async). kernels/hopper/gpu/tma.cuh has the same for a GPU.

#include "kernels/hopper/emulator/barrier.hpp"
#include "kernels/simt/emulator/vector_types.hpp"

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

/// @brief The same of a stack of matrices: the box lies in matrix `layer`.
inline void fetch_box(uint4* box, const TensorMap& map, int layer, int row, int column,
                      Barrier& barrier, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  simt::emulator::fetch_box({.shared = box,
                             .map = &map,
                             .position = {column, row, layer},
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

/// @brief The same of a stack of matrices: into matrix `layer`.
inline void store_box(const TensorMap& map, int layer, int row, int column, const uint4* box,
                      const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::store_box({.shared = const_cast<uint4*>(box),
                             .map = &map,
                             .position = {column, row, layer},
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
