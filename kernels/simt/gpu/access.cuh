#pragma once
/// @file
/// The accessors of memory on a GPU: plain loads and stores, nothing else (a test compares the PTX).
/// kernels/simt/emulator/language/access.hpp has the same for the emulator.

#include <cuda_runtime.h>

#include <type_traits>

namespace ultra::simt {

/// @brief Loads from global memory: `ldg(&p[i])` is `p[i]`.
template <typename T>
__device__ __forceinline__ T ldg(const T* address) {
  return *address;
}

/// @brief Stores to global memory: `stg(&p[i], x)` is `p[i] = x`.
template <typename T>
__device__ __forceinline__ void stg(T* address, const std::type_identity_t<T>& value) {
  *address = value;
}

/// @brief Loads from shared memory: `lds(&tile[i][j])` is `tile[i][j]`.
template <typename T>
__device__ __forceinline__ T lds(const T* address) {
  return *address;
}

/// @brief Stores to shared memory: `sts(&tile[i][j], x)` is `tile[i][j] = x`.
template <typename T>
__device__ __forceinline__ void sts(T* address, const std::type_identity_t<T>& value) {
  *address = value;
}

/// @brief A condition at which the lanes of a warp may part: `if (branch(i % 2 == 0))`.
__device__ __forceinline__ bool branch(bool condition) { return condition; }

/// @brief The block's dynamic shared memory, Config::shared_bytes long, as elements of T.
template <typename T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char storage[];
  return reinterpret_cast<T*>(storage);
}

}  // namespace ultra::simt
