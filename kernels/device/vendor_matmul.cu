#include "kernels/device/vendor_matmul.hpp"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/device/vendor_library.cuh"
#include "kernels/simt/error.hpp"
#include "kernels/simt/gpu/check.cuh"
#include "kernels/simt/gpu/stopwatch.hpp"

namespace ultra::kernels {
namespace {

using kernels::check;
using simt::gpu::check;

constexpr int kBlock = 256;

// A number from a counter, all of its bits mixed. Source: Steele, Lea and Flood 2014, "Fast
// splittable pseudorandom number generators" (SplitMix64).
__device__ std::uint64_t mixed(std::uint64_t counter) {
  std::uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Standard normal numbers. Source: Box and Muller 1958.
template <typename T>
__global__ void fill_kernel(T* values, std::size_t count, std::uint64_t seed) {
  const std::size_t i = std::size_t{blockIdx.x} * kBlock + threadIdx.x;
  if (i < count) {
    const std::uint64_t bits = mixed(seed + i);
    const float radius = static_cast<float>((bits >> 40) + 1) * 0x1p-24F;
    const float angle = static_cast<float>(bits & 0xffffff) * 0x1p-23F;
    values[i] = static_cast<T>(sqrtf(-2.0F * logf(radius)) * cospif(angle));
  }
}

template <typename T>
void fill(void* values, std::size_t count, std::uint64_t seed) {
  const auto blocks = static_cast<unsigned>((count + kBlock - 1) / kBlock);
  fill_kernel<<<blocks, kBlock>>>(static_cast<T*>(values), count, seed);
  check(cudaGetLastError(), "fill_kernel");
}

// The functions of the library that are called here. cublasGemmEx has overloads in C++: the
// library's own is the one that takes a cublasComputeType_t.
struct Library : VendorLibrary {
  cublasStatus_t (*create)(cublasHandle_t*) = nullptr;
  cublasStatus_t (*destroy)(cublasHandle_t) = nullptr;
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                         const void* alpha, const void* a, cudaDataType_t, int lda, const void* b,
                         cudaDataType_t, int ldb, const void* beta, void* c, cudaDataType_t,
                         int ldc, cublasComputeType_t, cublasGemmAlgo_t) = nullptr;
};

Library load() {
  Library found{{"cuBLAS", "libcublas", "put its folder into LD_LIBRARY_PATH"}};
  found.find(found.create, "cublasCreate_v2");
  found.find(found.destroy, "cublasDestroy_v2");
  found.find(found.gemm, "cublasGemmEx");
  return found;
}

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

std::size_t size_of(VendorAccuracy accuracy) { return accuracy == VendorAccuracy::kFp32 ? 4 : 2; }

}  // namespace

struct VendorMatmul::State {
  int rows;
  int columns;
  int depth;
  VendorAccuracy accuracy;
  cublasHandle_t handle = nullptr;
  void* a = nullptr;
  void* b = nullptr;
  void* c = nullptr;
  bool is_pedantic = false;

  void allocate(void*& matrix, int height, int width, std::uint64_t seed) const {
    const std::size_t count = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
    check(cudaMalloc(&matrix, count * size_of(accuracy)), "cudaMalloc of cuBLAS's matrices");
    if (accuracy == VendorAccuracy::kFp32) {
      fill<float>(matrix, count, seed);
    } else {
      fill<__nv_bfloat16>(matrix, count, seed);
    }
  }

  // cuBLAS is column-major: what it takes for c is the transpose of ours, the product of the
  // transposes. In fp32 b is [depth, columns], in bf16 [columns, depth].
  void launch() const {
    const float one = 1.0F;
    const float zero = 0.0F;
    const bool is_fp32 = accuracy == VendorAccuracy::kFp32;
    const cudaDataType_t type = is_fp32 ? CUDA_R_32F : CUDA_R_16BF;
    check(library().gemm(handle, is_fp32 ? CUBLAS_OP_N : CUBLAS_OP_T, CUBLAS_OP_N, columns, rows,
                         depth, &one,                                                     //
                         b, type, is_fp32 ? columns : depth, a, type, depth,              //
                         &zero, c, type, columns,                                         //
                         is_pedantic ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F,  //
                         CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
  }

  // Seconds of the quickest of some launches.
  [[nodiscard]] double seconds_of_launch() const {
    constexpr int kLaunches = 5;
    simt::gpu::Stopwatch stopwatch;
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kLaunches; ++i) {
      stopwatch.start();
      launch();
      least = std::min(least, stopwatch.stop());
    }
    return least;
  }

  void choose_way() {
    const double seconds = seconds_of_launch();
    is_pedantic = true;
    is_pedantic = seconds_of_launch() < seconds;
  }

  ~State() {
    if (handle != nullptr) {
      static_cast<void>(library().destroy(handle));
    }
    static_cast<void>(cudaFree(a));
    static_cast<void>(cudaFree(b));
    static_cast<void>(cudaFree(c));
  }
};

std::string VendorMatmul::why_missing() { return library().why_missing(); }

VendorMatmul::VendorMatmul(int rows, int columns, int depth, VendorAccuracy accuracy)
    : state_(std::make_unique<State>(
          State{.rows = rows, .columns = columns, .depth = depth, .accuracy = accuracy})) {
  if (!why_missing().empty()) {
    throw simt::SimtError(simt::Fault::kCuda, why_missing());
  }
  check(library().create(&state_->handle), "cublasCreate");
  state_->allocate(state_->a, rows, depth, 0);
  state_->allocate(state_->b, depth, columns, std::uint64_t{1} << 40);
  state_->allocate(state_->c, rows, columns, std::uint64_t{1} << 41);
  if (accuracy == VendorAccuracy::kFp32) {
    state_->choose_way();
  }
}

VendorMatmul::~VendorMatmul() = default;

const char* VendorMatmul::way() const { return state_->is_pedantic ? "pedantic" : "default"; }

void VendorMatmul::launch() { state_->launch(); }

}  // namespace ultra::kernels
