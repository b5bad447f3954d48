#pragma once
/// @file
/// Where a kernel runs. One kernel file is compiled once for each side; what depends on the side
/// carries it as a template parameter, so that all three fit into one executable.

/// @brief CUDA kernels that run on a GPU and, from the same source, on any CPU.
namespace ultra::simt {

/// @brief What runs a kernel.
enum class Side {
  /// @brief A GPU: plain CUDA, compiled by nvcc.
  kGpu,
  /// @brief The emulator with every access checked and counted.
  kInstrumented,
  /// @brief The emulator with plain accesses: right results at the best speed, nothing counted.
  kBare,
};

/// @brief The side that this translation unit is compiled for. The build defines ULTRA_SIMT_SIDE
/// (cmake/UltraSimt.cmake); nothing else may look at it.
#if defined(__CUDACC__)
constexpr Side kSide = Side::kGpu;
#elif defined(ULTRA_SIMT_SIDE)
constexpr Side kSide = Side::ULTRA_SIMT_SIDE;
#else
constexpr Side kSide = Side::kInstrumented;
#endif

/// @brief The name of a side, for tables and messages.
constexpr const char* name_of(Side side) {
  switch (side) {
    case Side::kGpu:
      return "gpu";
    case Side::kInstrumented:
      return "instrumented";
    case Side::kBare:
      break;
  }
  return "bare";
}

}  // namespace ultra::simt
