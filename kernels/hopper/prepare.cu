// What the host does for Hopper's rungs. The driver's function is looked up at run time: nothing links to
// libcuda, so the executable starts on machines without a driver.

#include "kernels/hopper/prepare.cuh"

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "kernels/simt/error.hpp"
#include "kernels/simt/gpu/check.cuh"

namespace ultra::kernels::hopper {
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

// A matrix for rank 2, one for each head of each sequence for rank 4.
TensorMap describe_matrices(const void* first, const HeadMatrices& of, int box_rows,
                            unsigned rank) {
  static const PFN_cuTensorMapEncodeTiled_v12000 kEncode = find_encoder();
  // The fastest extent comes first; the fastest stride is not told.
  const cuuint64_t extents[4] = {
      static_cast<cuuint64_t>(of.columns), static_cast<cuuint64_t>(of.rows),
      static_cast<cuuint64_t>(of.heads), static_cast<cuuint64_t>(of.sequences)};
  const cuuint64_t byte_strides[3] = {of.row_bytes(), of.head_bytes(), of.sequence_bytes()};
  const cuuint32_t box[4] = {kBoxColumns, static_cast<cuuint32_t>(box_rows), 1, 1};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  TensorMap map{};
  const CUresult result =
      kEncode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, rank, const_cast<void*>(first), extents,
              byte_strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
              CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw simt::SimtError(
        simt::Fault::kCuda,
        "cuTensorMapEncodeTiled refuses " + std::to_string(of.sequences) + " x " +
            std::to_string(of.heads) + " x " + std::to_string(of.rows) + " x " +
            std::to_string(of.columns) + " elements with error " +
            std::to_string(static_cast<int>(result)) +
            ", expected rows and a first byte at multiples of 16 bytes. Hint: take "
            "the matrix from a Buffer, not from its middle");
  }
  return map;
}

}  // namespace

void expect_hopper(const char* hint) {
  const int major = attribute(cudaDevAttrComputeCapabilityMajor);
  const int minor = attribute(cudaDevAttrComputeCapabilityMinor);
  if (major != 9 || minor != 0) {
    throw simt::SimtError(
        simt::Fault::kLaunch,
        "this GPU has compute capability " + std::to_string(major) + "." + std::to_string(minor) +
            ", expected 9.0 (H100, H200): wgmma exists nowhere else. Hint: " + hint);
  }
}

TensorMap describe_matrix(const simt::bf16* matrix, int rows, int columns, int box_rows) {
  return describe_matrices(matrix, {1, 1, rows, columns}, box_rows, 2);
}

TensorMap describe_heads(const void* first, const HeadMatrices& of, int box_rows) {
  return describe_matrices(first, of, box_rows, 4);
}

unsigned count_multiprocessors(const simt::Queue& queue) {
  const auto all = static_cast<unsigned>(attribute(cudaDevAttrMultiProcessorCount));
  return all - std::min(queue.spare_multiprocessors, all / 4);
}

}  // namespace ultra::kernels::hopper
