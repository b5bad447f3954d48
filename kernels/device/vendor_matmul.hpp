#pragma once
/// @file
/// The ceiling of kernels that arithmetic limits: the vendor's matrix product (cuBLAS), without its
/// headers. The library is opened when it is asked for: nothing that links this needs it to start.
/// vendor_matmul_stub.cpp serves builds without CUDA or without cuBLAS's headers.

#include <memory>
#include <string>

namespace ultra::kernels {

/// @brief What is multiplied; sums are fp32 in either case.
enum class VendorAccuracy {
  /// @brief fp32 on CUDA cores: CUBLAS_COMPUTE_32F_PEDANTIC or CUBLAS_COMPUTE_32F, whichever is
  /// quicker here. The former promises more, and may choose a slower kernel; neither takes TF32
  /// unless it is allowed to.
  kFp32,
  /// @brief bf16 on tensor cores, c in bf16.
  kBf16,
};

/// @brief c = a b in fp32, c = a transpose(b) in bf16, as the ladders have them, by cuBLAS on
/// random data of its own; all matrices are row-major.
class VendorMatmul {
 public:
  /// @brief Why there is no cuBLAS here, and what to do; empty when there is one.
  [[nodiscard]] static std::string why_missing();

  /// @brief Allocates the matrices, draws standard normal numbers for a [rows, depth] and b, which
  /// is [depth, columns] in fp32 and [columns, depth] in bf16, and finds out which way is the
  /// quickest.
  /// @throws simt::SimtError (Fault::kCuda) without a GPU, without that memory or without cuBLAS.
  VendorMatmul(int rows, int columns, int depth, VendorAccuracy accuracy);
  /// @brief Frees the memory.
  ~VendorMatmul();
  /// @brief The memory has one owner.
  VendorMatmul(const VendorMatmul&) = delete;
  /// @brief The memory has one owner.
  VendorMatmul& operator=(const VendorMatmul&) = delete;

  /// @brief How cuBLAS computes: "CUBLAS_COMPUTE_32F".
  [[nodiscard]] const char* way() const;

  /// @brief Queues the product on the default stream.
  /// @throws simt::SimtError (Fault::kCuda) when cuBLAS refuses it.
  void launch();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ultra::kernels
