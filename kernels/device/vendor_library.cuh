#pragma once
/// @file
/// cuBLAS and cuBLASLt, opened at run time: linking them would make every program that can time a
/// kernel load half a gigabyte of libraries when it starts.

#include <cublas_api.h>
#include <dlfcn.h>

#include <string>
#include <utility>

#include "kernels/simt/error.hpp"

namespace ultra::kernels {

/// @brief A library of CUDA's in the version that this was built with.
class VendorLibrary {
 public:
  /// @brief Opens it where the system or CUDA's usual folder has it.
  /// @param name  "cuBLAS"
  /// @param file  "libcublas"
  /// @param hint  what to do where it is missing
  VendorLibrary(std::string name, const std::string& file, const std::string& hint)
      : name_(std::move(name)) {
    const std::string versioned = file + ".so." + std::to_string(CUBLAS_VER_MAJOR);
    for (const std::string& path : {versioned, "/usr/local/cuda/lib64/" + versioned}) {
      handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) {
        return;
      }
    }
    const char* error = dlerror();
    why_missing_ = name_ +
                   " could not be opened: " + (error == nullptr ? "no reason given" : error) +
                   ". Hint: " + hint;
  }

  /// @brief Finds a function; leaves it alone where there is no library.
  template <typename Function>
  void find(Function& function, const char* symbol) {
    if (handle_ == nullptr) {
      return;
    }
    function = reinterpret_cast<Function>(dlsym(handle_, symbol));
    if (function == nullptr) {
      why_missing_ = name_ + " has no function " + symbol;
    }
  }

  /// @brief Why it cannot be used; empty where it can.
  [[nodiscard]] const std::string& why_missing() const { return why_missing_; }

 private:
  std::string name_;
  void* handle_ = nullptr;
  std::string why_missing_;
};

/// @brief Ends in an error where a call of the library did.
/// @throws SimtError (Fault::kCuda).
inline void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw simt::SimtError(simt::Fault::kCuda,
                          std::string(call) + ": cuBLAS status " + std::to_string(status) +
                              ". Hint: cublas_api.h names it; is the GPU's memory full?");
  }
}

}  // namespace ultra::kernels
