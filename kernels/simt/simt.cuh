#pragma once
/// @file
/// All that a kernel and its launcher need, on every executor: include it instead of CUDA's
/// headers. What not every kernel needs is in files of its own, because nvcc reads it once per
/// architecture: small_floats.cuh (half, bf16, fp8), tiles.cuh (tensor cores), matrix_tiles.cuh
/// (tensor cores with their registers in sight) and async_copy.cuh (copies that take place while
/// the thread goes on).
///
/// A kernel file is plain CUDA except for its accesses of memory, which go through ldg(), stg(),
/// lds() and sts(); branch() marks conditions whose divergence is to be counted. nvcc makes plain
/// loads and stores of them; the host's compiler makes the emulator's checks and counters, or
/// nothing (Executor::kFast).
///
/// Rules:
///  - kernels, and the device functions they share, live in unnamed namespaces: the same file is compiled
///    for each executor, and all may end up in one executable;
///  - a launcher has its executor in its signature: a template declared as
///    `template <Executor executor> void transpose(const float* in, float* out, const Queue& queue)` and
///    defined in the kernel file as `template <> void transpose<kExecutor>(...)`;
///  - one access of a kind per source line, so that the report tells them apart;
///  - kernels' names end in _kernel: the emulator then knows whose __shared__ variables are whose;
///  - dynamic_shared<T>() instead of `extern __shared__`.
///
/// The emulator's limits: threads take turns only where they wait, so a block waits for none but those of
/// its cluster; a lane's k-th execution of a line since its warp last met counts as one request with the
/// other lanes' k-th ones, also where a GPU would issue several; cooperative groups are missing; TMA and
/// wgmma are a model, whose blind spots emulator/async/units.hpp lists.

#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"

#if defined(__CUDACC__)
#include "kernels/simt/gpu/access.cuh"
#include "kernels/simt/gpu/launch.cuh"
#else
#include "kernels/simt/emulator/language/access.hpp"
#include "kernels/simt/emulator/language/atomics.hpp"
#include "kernels/simt/emulator/language/intrinsics.hpp"
#include "kernels/simt/emulator/language/qualifiers.hpp"
#include "kernels/simt/emulator/language/vector_types.hpp"
#include "kernels/simt/emulator/launch.hpp"
#endif

#include "kernels/simt/warp_reduce.cuh"
