// cuBLASLt chooses an algorithm for a shape once; after that a product costs the host a look-up and a
// launch.

#include "kernels/device/vendor_product.hpp"

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "kernels/device/vendor_library.cuh"
#include "kernels/simt/error.hpp"
#include "kernels/simt/gpu/check.cuh"

namespace ultra::kernels {
namespace {

using kernels::check;
using simt::gpu::check;

// What NVIDIA recommends for Hopper.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
constexpr std::size_t kMostAlignment = 256;

// The functions of the library that are called here.
struct Library : VendorLibrary {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmulDescCreate) make_product = nullptr;
  decltype(&cublasLtMatmulDescDestroy) drop_product = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_product = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) make_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) drop_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) make_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) drop_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
};

Library load() {
  Library found{
      {"cuBLASLt", "libcublasLt", "put its folder into LD_LIBRARY_PATH, or use --matmul ours"}};
  found.find(found.create, "cublasLtCreate");
  found.find(found.matmul, "cublasLtMatmul");
  found.find(found.choose, "cublasLtMatmulAlgoGetHeuristic");
  found.find(found.make_product, "cublasLtMatmulDescCreate");
  found.find(found.drop_product, "cublasLtMatmulDescDestroy");
  found.find(found.set_product, "cublasLtMatmulDescSetAttribute");
  found.find(found.make_layout, "cublasLtMatrixLayoutCreate");
  found.find(found.drop_layout, "cublasLtMatrixLayoutDestroy");
  found.find(found.make_preference, "cublasLtMatmulPreferenceCreate");
  found.find(found.drop_preference, "cublasLtMatmulPreferenceDestroy");
  found.find(found.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  return found;
}

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

cudaDataType_t type_of(VendorNumber number) {
  switch (number) {
    case VendorNumber::kF64:
      return CUDA_R_64F;
    case VendorNumber::kBf16:
      return CUDA_R_16BF;
    case VendorNumber::kF16:
      return CUDA_R_16F;
    case VendorNumber::kF32:
      break;
  }
  return CUDA_R_32F;
}

// A descriptor of the library that is dropped at the end.
template <typename T>
using Owned = std::unique_ptr<T, cublasStatus_t (*)(T*)>;

using OwnedLayout = Owned<cublasLtMatrixLayoutOpaque_t>;

// A row-major matrix is the transpose of a column-major one of the same bytes.
OwnedLayout layout(VendorNumber number, std::size_t rows, std::size_t columns, std::size_t stride) {
  cublasLtMatrixLayout_t made = nullptr;
  check(library().make_layout(&made, type_of(number), columns, rows,
                              static_cast<std::int64_t>(stride)),
        "cublasLtMatrixLayoutCreate");
  return {made, library().drop_layout};
}

OwnedLayout layout_of(VendorNumber number, const VendorMatrix& matrix, std::size_t rows,
                      std::size_t columns) {
  return matrix.is_transposed ? layout(number, columns, rows, matrix.stride)
                              : layout(number, rows, columns, matrix.stride);
}

std::size_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address);
  return std::min<std::size_t>(bits & (~bits + 1), kMostAlignment);
}

// All that the choice of an algorithm depends on.
using Key = std::array<std::size_t, 12>;

Key key_of(const VendorProduct& of) {
  return {of.rows,
          of.columns,
          of.depth,
          static_cast<std::size_t>(of.factors),
          static_cast<std::size_t>(of.result),
          of.a.stride * 2 + (of.a.is_transposed ? 1 : 0),
          of.b.stride * 2 + (of.b.is_transposed ? 1 : 0),
          of.out_stride,
          alignment_of(of.a.data),
          alignment_of(of.b.data),
          alignment_of(of.out),
          of.accumulates ? std::size_t{1} : 0};
}

// A product whose shape has been seen: descriptors, and the algorithm. cuBLASLt is column-major: what
// it takes for the result is the transpose of ours, the product of the transposes, so b comes first.
class Plan {
 public:
  Plan(cublasLtHandle_t handle, const VendorProduct& of)
      : product_(make_product(of)),
        a_(layout_of(of.factors, of.a, of.rows, of.depth)),
        b_(layout_of(of.factors, of.b, of.depth, of.columns)),
        out_(layout(of.result, of.rows, of.columns, of.out_stride)) {
    choose(handle, of);
  }

  void launch(cublasLtHandle_t handle, const VendorProduct& of, void* workspace,
              cudaStream_t stream) const {
    const double wide[] = {1.0, of.accumulates ? 1.0 : 0.0};
    const float narrow[] = {1.0F, of.accumulates ? 1.0F : 0.0F};
    const bool is_f64 = of.factors == VendorNumber::kF64;
    const void* one = is_f64 ? static_cast<const void*>(&wide[0]) : &narrow[0];
    const void* factor = is_f64 ? static_cast<const void*>(&wide[1]) : &narrow[1];
    check(library().matmul(handle, product_.get(), one, of.b.data, b_.get(), of.a.data, a_.get(),
                           factor, of.out, out_.get(), of.out, out_.get(), &algorithm_.algo,
                           workspace, kWorkspaceBytes, stream),
          "cublasLtMatmul");
  }

 private:
  using Product = Owned<cublasLtMatmulDescOpaque_t>;

  static Product make_product(const VendorProduct& of) {
    const bool is_f64 = of.factors == VendorNumber::kF64;
    cublasLtMatmulDesc_t made = nullptr;
    check(library().make_product(&made, is_f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                 is_f64 ? CUDA_R_64F : CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    Product product(made, library().drop_product);
    const auto set = [&](cublasLtMatmulDescAttributes_t which, bool is_transposed) {
      const cublasOperation_t operation = is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
      check(library().set_product(product.get(), which, &operation, sizeof(operation)),
            "cublasLtMatmulDescSetAttribute");
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, of.b.is_transposed);
    set(CUBLASLT_MATMUL_DESC_TRANSB, of.a.is_transposed);
    return product;
  }

  void choose(cublasLtHandle_t handle, const VendorProduct& of) {
    cublasLtMatmulPreference_t made = nullptr;
    check(library().make_preference(&made), "cublasLtMatmulPreferenceCreate");
    const Owned<cublasLtMatmulPreferenceOpaque_t> preference(made, library().drop_preference);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
      check(library().set_preference(preference.get(), which, &value, sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    const auto alignment = [](const void* address) {
      return static_cast<std::uint32_t>(alignment_of(address));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
    // Parts of the depth are added up in the type of sums, not in that of the result.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(of.b.data));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(of.a.data));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(of.out));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(of.out));
    int found = 0;
    check(library().choose(handle, product_.get(), b_.get(), a_.get(), out_.get(), out_.get(),
                           preference.get(), 1, &algorithm_, &found),
          "cublasLtMatmulAlgoGetHeuristic");
    if (found == 0) {
      check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
    }
  }

  Product product_;
  OwnedLayout a_;
  OwnedLayout b_;
  OwnedLayout out_;
  cublasLtMatmulHeuristicResult_t algorithm_{};
};

// Of one GPU: ranks that are threads wait for those on the same one alone. Handles and memory last as
// long as the program: the driver takes them back at its end, when it is too late to call the library.
class Plans {
 public:
  void launch(const VendorProduct& of, cudaStream_t stream) {
    const std::scoped_lock lock(mutex_);
    if (handle_ == nullptr) {
      check(library().create(&handle_), "cublasLtCreate");
    }
    void*& workspace = workspaces_[stream];
    if (workspace == nullptr) {
      check(cudaMalloc(&workspace, kWorkspaceBytes), "cudaMalloc of cuBLASLt's workspace");
    }
    const Key key = key_of(of);
    auto plan = plans_.find(key);
    if (plan == plans_.end()) {
      plan = plans_.emplace(key, std::make_unique<Plan>(handle_, of)).first;
    }
    plan->second->launch(handle_, of, workspace, stream);
  }

 private:
  std::mutex mutex_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<cudaStream_t, void*> workspaces_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

Plans& plans_of_current_gpu() {
  int gpu = 0;
  check(cudaGetDevice(&gpu), "cudaGetDevice");
  static std::mutex mutex;
  static auto* const made = new std::map<int, Plans>;
  const std::scoped_lock lock(mutex);
  return (*made)[gpu];
}

}  // namespace

std::string why_no_vendor_product() { return library().why_missing(); }

void vendor_product(const VendorProduct& product, const simt::Queue& queue) {
  if (!library().why_missing().empty()) {
    throw simt::SimtError(simt::Fault::kCuda, library().why_missing());
  }
  plans_of_current_gpu().launch(product, static_cast<cudaStream_t>(queue.stream.handle));
}

}  // namespace ultra::kernels
