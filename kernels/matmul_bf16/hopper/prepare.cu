// The host's side of Hopper's rungs. The driver's function is looked up at run time: nothing links to
// libcuda, so the executable starts on machines without a driver.

#include "kernels/matmul_bf16/hopper/prepare.cuh"

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <string>

#include "kernels/simt/error.hpp"
#include "kernels/simt/gpu/check.cuh"

namespace ultra::kernels::matmul_bf16 {
namespace {

constexpr int kBoxColumns = 64;  // 128 bytes, the span of the swizzle

int attribute(cudaDeviceAttr which) {
  int device = 0;
  int value = 0;
  simt::gpu::check(cudaGetDevice(&device), "cudaGetDevice");
  simt::gpu::check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

PFN_cuTensorMapEncodeTiled_v12000 find_encoder() {
  constexpr unsigned kVersion = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status{};
  simt::gpu::check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kVersion,
                                                    cudaEnableDefault, &status),
                   "cudaGetDriverEntryPointByVersion(cuTensorMapEncodeTiled)");
  if (status != cudaDriverEntryPointSuccess || function == nullptr) {
    throw simt::SimtError(
        simt::Fault::kCuda,
        "the driver has no cuTensorMapEncodeTiled, expected a driver for CUDA 12.0 "
        "or later. Hint: nvidia-smi shows the driver's version; update it");
  }
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

}  // namespace

void expect_hopper(const Problem& problem) {
  const int major = attribute(cudaDevAttrComputeCapabilityMajor);
  const int minor = attribute(cudaDevAttrComputeCapabilityMinor);
  if (major != 9 || minor != 0) {
    throw simt::SimtError(simt::Fault::kLaunch,
                          "this GPU has compute capability " + std::to_string(major) + "." +
                              std::to_string(minor) +
                              ", expected 9.0 (H100, H200): wgmma exists nowhere else. Hint: rungs "
                              "1 to 6 run on any GPU since the A100");
  }
  if (problem.columns % 8 != 0 || problem.depth % 8 != 0) {
    throw simt::SimtError(simt::Fault::kLaunch, "columns x depth are " +
                                                    std::to_string(problem.columns) + " x " +
                                                    std::to_string(problem.depth) +
                                                    ", expected multiples of 8: TMA's rows begin "
                                                    "at multiples of 16 bytes. Hint: rungs 1 to "
                                                    "4 take any shape");
  }
}

CUtensorMap describe_matrix(const simt::bf16* matrix, int rows, int columns, int box_rows) {
  static const PFN_cuTensorMapEncodeTiled_v12000 kEncode = find_encoder();
  // The fastest extent comes first.
  const cuuint64_t extents[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t bytes_per_row[1] = {static_cast<cuuint64_t>(columns) * sizeof(simt::bf16)};
  const cuuint32_t box[2] = {kBoxColumns, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t strides[2] = {1, 1};
  CUtensorMap map{};
  const CUresult result = kEncode(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<simt::bf16*>(matrix), extents,
      bytes_per_row, box, strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw simt::SimtError(
        simt::Fault::kCuda,
        "cuTensorMapEncodeTiled refuses a matrix of " + std::to_string(rows) + " x " +
            std::to_string(columns) + " with error " + std::to_string(static_cast<int>(result)) +
            ", expected rows and a first byte at multiples of 16 bytes. Hint: take "
            "the matrix from a Buffer, not from its middle");
  }
  return map;
}

unsigned count_multiprocessors() {
  return static_cast<unsigned>(attribute(cudaDevAttrMultiProcessorCount));
}

}  // namespace ultra::kernels::matmul_bf16
