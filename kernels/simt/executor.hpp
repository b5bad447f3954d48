#pragma once
/// @file
/// What runs a kernel. One kernel file is compiled once for each executor; what depends on the executor
/// carries it as a template parameter, so that all three fit into one executable.

/// @brief CUDA kernels that run on a GPU and, from the same source, on any CPU.
namespace ultra::simt {

/// @brief What runs a kernel.
enum class Executor {
  /// @brief A GPU: plain CUDA, compiled by nvcc.
  kGpu,
  /// @brief The emulator with every access checked and counted.
  kChecked,
  /// @brief The emulator with plain accesses: right results at the best speed, nothing counted.
  kFast,
};

/// @brief The executor that this translation unit is compiled for. The build defines
/// ULTRA_SIMT_EXECUTOR (cmake/UltraSimt.cmake); nothing else may look at it.
#if defined(__CUDACC__)
constexpr Executor kExecutor = Executor::kGpu;
#elif defined(ULTRA_SIMT_EXECUTOR)
constexpr Executor kExecutor = Executor::ULTRA_SIMT_EXECUTOR;
#else
constexpr Executor kExecutor = Executor::kChecked;
#endif

/// @brief The name of an executor, for tables and messages.
constexpr const char* name_of(Executor executor) {
  switch (executor) {
    case Executor::kGpu:
      return "gpu";
    case Executor::kChecked:
      return "instrumented";
    case Executor::kFast:
      break;
  }
  return "bare";
}

}  // namespace ultra::simt
