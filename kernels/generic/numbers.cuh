#pragma once
/// @file
/// Loads and stores of elements whose type is known when the kernel runs.

#include <cstdint>
#include <initializer_list>

#include "kernels/generic/numbers.hpp"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"
#include "kernels/simt/small_floats.cuh"

namespace ultra::kernels::generic {
namespace {

/// @brief Threads of a block that works element by element.
constexpr int kThreads = 256;

/// @brief This thread's number in the whole grid.
__device__ __forceinline__ std::size_t global_thread() {
  return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

/// @brief An element of any type, widened: exactly.
__device__ __forceinline__ float widen(float x) { return x; }
/// @brief An element of any type, widened: exactly.
__device__ __forceinline__ double widen(double x) { return x; }
/// @brief An element of any type, widened: exactly.
__device__ __forceinline__ float widen(simt::bf16 x) { return static_cast<float>(x); }
/// @brief An element of any type, widened: exactly.
__device__ __forceinline__ float widen(simt::half x) { return static_cast<float>(x); }

/// @brief The nearest number of two bytes to an f64 number, rounded once: by way of the f32 number
/// whose last bit remembers that something was cut off.
/// Source: Boldo & Melquiond 2008, "Emulation of FMA and correctly rounded sums", IEEE Trans. Comput.
template <typename T>
__device__ __forceinline__ T narrow(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  if (back == value || value != value) {
    return T(nearest);
  }
  const bool grew = value < 0.0 ? back < value : back > value;
  const unsigned bits = __builtin_bit_cast(unsigned, nearest) - (grew ? 1U : 0U);
  return T(__builtin_bit_cast(float, bits | 1U));
}

/// @brief The nearest number of two bytes.
template <typename T>
__device__ __forceinline__ T narrow(float value) {
  return T(value);
}

/// @brief Element `index`, as the type in which sums are kept.
template <typename Sum>
__device__ __forceinline__ Sum load(const Source& from, std::size_t index) {
  switch (from.number) {
    case Number::kF64:
      return static_cast<Sum>(simt::ldg(static_cast<const double*>(from.data) + index));
    case Number::kBf16:
      return widen(simt::ldg(static_cast<const simt::bf16*>(from.data) + index));
    case Number::kF16:
      return widen(simt::ldg(static_cast<const simt::half*>(from.data) + index));
    default:
      return simt::ldg(static_cast<const float*>(from.data) + index);
  }
}

/// @brief Element `index` of what is also written.
template <typename Sum>
__device__ __forceinline__ Sum load(const Target& from, std::size_t index) {
  return load<Sum>(Source{from.number, from.data}, index);
}

/// @brief Writes element `index`, rounded to its type.
template <typename Sum>
__device__ __forceinline__ void store(const Target& to, std::size_t index, Sum value) {
  switch (to.number) {
    case Number::kF64:
      return simt::stg(static_cast<double*>(to.data) + index, static_cast<double>(value));
    case Number::kBf16:
      return simt::stg(static_cast<simt::bf16*>(to.data) + index, narrow<simt::bf16>(value));
    case Number::kF16:
      return simt::stg(static_cast<simt::half*>(to.data) + index, narrow<simt::half>(value));
    default:
      return simt::stg(static_cast<float*>(to.data) + index, static_cast<float>(value));
  }
}

/// @brief Elements that a thread takes at a time where all operands allow it: 16 bytes of f32.
constexpr int kSeveral = 4;

/// @brief Whether elements of f32 or two bytes begin where several can be read and written at a time, as
/// well as those behind a multiple of kSeveral.
inline bool come_in_several(std::initializer_list<Source> operands) {
  for (const Source& of : operands) {
    const std::size_t bytes = kSeveral * size_of(of.number);
    if (of.number == Number::kF64 || of.number == Number::kI32 ||
        reinterpret_cast<std::uintptr_t>(of.data) % bytes != 0) {
      return false;
    }
  }
  return true;
}

/// @brief The elements from `index` on, as the type in which sums are kept, in one access.
/// Requires: one element, or kSeveral at a place that come_in_several() allows.
template <typename Sum, int count>
__device__ __forceinline__ void load(const Source& from, std::size_t index, Sum (&values)[count]) {
  const auto read = [&]<typename T>(const T* data) {
    const auto pack = simt::ldg(reinterpret_cast<const simt::Pack<T, count>*>(data + index));
#pragma unroll
    for (int i = 0; i < count; ++i) {
      values[i] = widen(pack.values[i]);
    }
  };
  if constexpr (count == 1) {
    values[0] = load<Sum>(from, index);
  } else if (from.number == Number::kBf16) {
    read(static_cast<const simt::bf16*>(from.data));
  } else if (from.number == Number::kF16) {
    read(static_cast<const simt::half*>(from.data));
  } else {
    read(static_cast<const float*>(from.data));
  }
}

/// @brief The elements of what is also written, likewise.
template <typename Sum, int count>
__device__ __forceinline__ void load(const Target& from, std::size_t index, Sum (&values)[count]) {
  load(Source{from.number, from.data}, index, values);
}

/// @brief Writes the elements from `index` on, each rounded to its type, in one access.
/// Requires: what load() does.
template <typename Sum, int count>
__device__ __forceinline__ void store(const Target& to, std::size_t index,
                                      const Sum (&values)[count]) {
  const auto write = [&]<typename T>(T* data) {
    simt::Pack<T, count> pack;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      pack.values[i] = T(values[i]);
    }
    simt::stg(reinterpret_cast<simt::Pack<T, count>*>(data + index), pack);
  };
  if constexpr (count == 1) {
    store(to, index, values[0]);
  } else if (to.number == Number::kBf16) {
    write(static_cast<simt::bf16*>(to.data));
  } else if (to.number == Number::kF16) {
    write(static_cast<simt::half*>(to.data));
  } else {
    write(static_cast<float*>(to.data));
  }
}

/// @brief Calls body<n>(first) for the n elements that are this thread's: `width` of them, or one of
/// those behind the last `width`.
template <int width, typename Body>
__device__ __forceinline__ void for_own_elements(std::size_t count, const Body& body) {
  const std::size_t thread = global_thread();
  const std::size_t packs = count / width;
  if (thread < packs) {
    body.template operator()<width>(thread * width);
  } else if (const std::size_t rest = packs * width + (thread - packs); rest < count) {
    body.template operator()<1>(rest);
  }
}

/// @brief Launches a kernel with a thread for each of `count` elements; nothing when there is none.
template <typename... Parameters, typename... Arguments>
void launch_each(void (*kernel)(Parameters...), const char* name, std::size_t count,
                 const simt::Queue& queue, const Arguments&... arguments) {
  if (count == 0) {
    return;
  }
  simt::launch(kernel,
               {.name = name,
                .grid = {.x = simt::ceil_div(count, kThreads)},
                .block = {.x = kThreads},
                .queue = queue},
               arguments...);
}

}  // namespace
}  // namespace ultra::kernels::generic
