#pragma once
/// @file
/// Region: which bytes of a device's memory an operation reads or writes.

#include <cstddef>

namespace ultra::gpu {

/// @brief `runs` pieces of `bytes` bytes whose beginnings are `stride` bytes apart.
///
/// One run is a plain range; several are the rows of a strided view, so that two operations on
/// different columns of a matrix do not seem to meet.
struct Region {
  const void* begin = nullptr;  ///< first byte of the first run
  std::size_t bytes = 0;        ///< of one run; 0 for no bytes at all
  std::size_t runs = 1;         ///< how many runs
  std::size_t stride = 0;       ///< bytes from one run's beginning to the next one's
};

}  // namespace ultra::gpu
