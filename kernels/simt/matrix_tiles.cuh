#pragma once
/// @file
/// Tensor cores with their registers in sight, on every executor: load_matrix_x4() and its kin
/// (ldmatrix), multiply_accumulate() (mma.sync), pack_pair() and unpack_pair(). tiles.cuh has the same
/// tensor cores with tiles whose layout nobody knows.
///
/// Elements are of bf16, or of half where a function is told so. multiply_accumulate() is
/// d [16, 8] = a [16, 16] b [16, 8] + c [16, 8]. With g = lane / 4 and t = lane % 4, the elements of a
/// lane are, the lower half of a register first:
///
///     a[0]: row g,     columns 2t, 2t + 1        b[0]: column g, rows 2t, 2t + 1
///     a[1]: row g + 8, columns 2t, 2t + 1        b[1]: column g, rows 2t + 8, 2t + 9
///     a[2]: row g,     columns 2t + 8, 2t + 9    d[0], d[1]: row g,     columns 2t, 2t + 1
///     a[3]: row g + 8, columns 2t + 8, 2t + 9    d[2], d[3]: row g + 8, columns 2t, 2t + 1
///
/// multiply_accumulate_e4m3() is d [16, 8] = a [16, 32] b [32, 8] + c with elements of a byte: where
/// above a register has columns or rows 2t and 2t + 1, it has 4t to 4t + 3; 8 further is 16 further.
///
/// load_matrix_x4() gives register i of lane l elements 2t and 2t + 1 of row g of matrix i; the
/// address of that row is what lane 8 i + g brings. Source: PTX ISA, "Matrix Fragments for
/// mma.m16n8k16" and "ldmatrix".

#include "kernels/simt/small_floats.cuh"

#if defined(__CUDACC__)

namespace ultra::simt {

/// @brief The name of an element type in PTX.
template <typename T>
struct PtxName;
/// @brief Of bf16.
template <>
struct PtxName<bf16> {
  /// @brief As asm's constraint "C" wants it.
  static constexpr const char kText[] = "bf16";
};
/// @brief Of half.
template <>
struct PtxName<half> {
  /// @brief As asm's constraint "C" wants it.
  static constexpr const char kText[] = "f16";
};

/// @brief Loads four 8 x 8 matrices of 16-bit elements from shared memory: lane l brings the address of
/// row l % 8 of matrix l / 8, 16 bytes at a multiple of 16. All lanes of the warp call it.
__device__ __forceinline__ void load_matrix_x4(unsigned (&registers)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// @brief The same, each matrix transposed on its way: register i has elements g of rows 2t and 2t + 1.
__device__ __forceinline__ void load_matrix_x4_transposed(unsigned (&registers)[4],
                                                          const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// @brief Two matrices; only the addresses of lanes 0 to 15 count.
__device__ __forceinline__ void load_matrix_x2(unsigned (&registers)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(registers[0]), "=r"(registers[1])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// @brief Two matrices, each transposed on its way; only the addresses of lanes 0 to 15 count.
__device__ __forceinline__ void load_matrix_x2_transposed(unsigned (&registers)[2],
                                                          const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(registers[0]), "=r"(registers[1])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// @brief d = a b + c with bf16 or half a [16, 16] and b [16, 8], and c and d [16, 8] in float. d may be
/// c. All lanes of the warp call it. GPUs before compute capability 8.0 have no such instruction, and stop.
template <typename T = bf16>
__device__ __forceinline__ void multiply_accumulate(float (&d)[4], const unsigned (&a)[4],
                                                    const unsigned (&b)[2], const float (&c)[4]) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.%14.%14.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
        "f"(c[2]), "f"(c[3]), "C"(PtxName<T>::kText));
#else
  __trap();
#endif
}

/// @brief d = a b + c with e4m3 a [16, 32] and b [32, 8], and c and d [16, 8] in float. d may be c. All
/// lanes of the warp call it. GPUs before compute capability 8.9 have no such instruction, and stop.
__device__ __forceinline__ void multiply_accumulate_e4m3(float (&d)[4], const unsigned (&a)[4],
                                                         const unsigned (&b)[2],
                                                         const float (&c)[4]) {
#if __CUDA_ARCH__ >= 890
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
        "f"(c[2]), "f"(c[3]));
#else
  __trap();
#endif
}

/// @brief Two floats, rounded to bf16 or half, in one register: `low` in the lower half, which is the
/// lower address.
template <typename T>
__device__ __forceinline__ unsigned pack_pair(float low, float high) {
#if __CUDA_ARCH__ >= 800
  unsigned packed;
  asm("cvt.rn.%3x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low), "C"(PtxName<T>::kText));
  return packed;
#else
  const auto bits = [](float value) {
    if constexpr (__is_same(T, half)) {
      return unsigned{__half_as_ushort(__float2half(value))};
    } else {
      return unsigned{__bfloat16_as_ushort(__float2bfloat16(value))};
    }
  };
  return bits(high) << 16 | bits(low);
#endif
}

/// @brief The two elements of a register as floats: x from the lower half.
template <typename T>
__device__ __forceinline__ float2 unpack_pair(unsigned packed) {
  if constexpr (__is_same(T, half)) {
    return make_float2(__half2float(__ushort_as_half(packed & 0xffffU)),
                       __half2float(__ushort_as_half(packed >> 16)));
  } else {
    // A bf16 is the upper half of a float.
    return make_float2(__uint_as_float(packed << 16), __uint_as_float(packed & 0xffff0000U));
  }
}

/// @brief pack_pair() of bf16.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
  return pack_pair<bf16>(low, high);
}

/// @brief unpack_pair() of bf16.
__device__ __forceinline__ float2 unpack_bf16(unsigned packed) { return unpack_pair<bf16>(packed); }

}  // namespace ultra::simt

#else

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "kernels/simt/emulator/hooks.hpp"
#include "kernels/simt/emulator/language/access.hpp"
#include "kernels/simt/emulator/language/vector_types.hpp"

namespace ultra::simt::emulator {

/// @brief What a lane brings to a load of matrices, and gets from it.
struct MatrixLoad {
  /// @brief The row at its address: eight elements of 16 bits.
  std::array<std::uint16_t, 8> row;
  /// @brief Its registers, one per matrix.
  std::array<unsigned, 4> registers;
};

/// @brief Hands the rows of `matrices` 8 x 8 matrices to the lanes that own their elements.
void distribute_rows(std::span<void* const, 32> deposits, LaneMask mask, std::size_t matrices,
                     bool transposed);

/// @brief What a lane brings to mma.sync, and gets from it.
struct MatrixProduct {
  /// @brief Two elements of a each.
  std::array<unsigned, 4> a;
  /// @brief Two elements of b each.
  std::array<unsigned, 2> b;
  /// @brief Elements of c, and then of d.
  std::array<float, 4> sums;
};

/// @brief Multiplies the lanes' matrices of bf16.
void resolve_matrix_product(std::span<void* const, 32> deposits, LaneMask mask);

/// @brief Those of half.
void resolve_matrix_product_f16(std::span<void* const, 32> deposits, LaneMask mask);

/// @brief The same where a register has four e4m3 elements: a [16, 32], b [32, 8].
void resolve_matrix_product_e4m3(std::span<void* const, 32> deposits, LaneMask mask);

/// @brief One lane's product of matrices.
void multiply_matrices(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                       const float (&c)[4], const Meeting& meeting);

/// @brief Loads matrices; lanes whose address does not count pass null.
template <Executor executor, std::size_t matrices, bool transposed>
void load_matrices(unsigned (&registers)[matrices], const void* row, SourceLine place) {
  MatrixLoad deposit{};
  if (static_cast<std::size_t>(lane_index()) < matrices * 8) {
    if constexpr (executor == Executor::kChecked) {
      observe({.operation = Operation::kLoad,
               .space = MemorySpace::kShared,
               .address = row,
               .size = sizeof deposit.row,
               .alignment = sizeof deposit.row,
               .value = nullptr,
               .place = place});
    }
    std::memcpy(deposit.row.data(), row, sizeof deposit.row);
  }
  meet({.mask = kWholeWarp,
        .resolve = [](std::span<void* const, 32> deposits,
                      LaneMask mask) { distribute_rows(deposits, mask, matrices, transposed); },
        .deposit = &deposit,
        .name = "load_matrix",
        .place = place});
  for (std::size_t matrix = 0; matrix < matrices; ++matrix) {
    registers[matrix] = deposit.registers[matrix];
  }
}

}  // namespace ultra::simt::emulator

namespace ultra::simt {

/// @brief Loads four 8 x 8 matrices of 16-bit elements from shared memory: lane l brings the address of
/// row l % 8 of matrix l / 8, 16 bytes at a multiple of 16. All lanes of the warp call it.
template <Executor executor = kExecutor>
void load_matrix_x4(unsigned (&registers)[4], const void* row, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  emulator::load_matrices<executor, 4, false>(registers, row, {.file = file, .line = line});
}

/// @brief The same, each matrix transposed on its way: register i has elements g of rows 2t and 2t + 1.
template <Executor executor = kExecutor>
void load_matrix_x4_transposed(unsigned (&registers)[4], const void* row,
                               const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::load_matrices<executor, 4, true>(registers, row, {.file = file, .line = line});
}

/// @brief Two matrices; only the addresses of lanes 0 to 15 count.
template <Executor executor = kExecutor>
void load_matrix_x2(unsigned (&registers)[2], const void* row, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  emulator::load_matrices<executor, 2, false>(registers, row, {.file = file, .line = line});
}

/// @brief Two matrices, each transposed on its way; only the addresses of lanes 0 to 15 count.
template <Executor executor = kExecutor>
void load_matrix_x2_transposed(unsigned (&registers)[2], const void* row,
                               const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::load_matrices<executor, 2, true>(registers, row, {.file = file, .line = line});
}

/// @brief d = a b + c with bf16 or half a [16, 16] and b [16, 8], and c and d [16, 8] in float. d may be
/// c. All lanes of the warp call it.
template <typename T = bf16>
void multiply_accumulate(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                         const float (&c)[4], const char* file = __builtin_FILE(),
                         int line = __builtin_LINE()) {
  emulator::multiply_matrices(
      d, a, b, c,
      {.mask = emulator::kWholeWarp,
       .resolve = std::is_same_v<T, half> ? &emulator::resolve_matrix_product_f16
                                          : &emulator::resolve_matrix_product,
       .deposit = nullptr,
       .name = "multiply_accumulate",
       .place = {.file = file, .line = line}});
}

/// @brief d = a b + c with e4m3 a [16, 32] and b [32, 8], and c and d [16, 8] in float. d may be c. All
/// lanes of the warp call it. Sums are those of float, which tensor cores' are not.
inline void multiply_accumulate_e4m3(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                     const float (&c)[4], const char* file = __builtin_FILE(),
                                     int line = __builtin_LINE()) {
  emulator::multiply_matrices(d, a, b, c,
                              {.mask = emulator::kWholeWarp,
                               .resolve = &emulator::resolve_matrix_product_e4m3,
                               .deposit = nullptr,
                               .name = "multiply_accumulate_e4m3",
                               .place = {.file = file, .line = line}});
}

/// @brief Two floats, rounded to bf16 or half, in one register: `low` in the lower half, which is the
/// lower address.
template <typename T>
unsigned pack_pair(float low, float high) {
  return unsigned{T(low).bits()} | unsigned{T(high).bits()} << 16;
}

/// @brief The two elements of a register as floats: x from the lower half.
template <typename T>
float2 unpack_pair(unsigned packed) {
  const auto element = [](unsigned bits) {
    return static_cast<float>(T::from_bits(static_cast<std::uint16_t>(bits)));
  };
  return make_float2(element(packed & 0xffffU), element(packed >> 16));
}

/// @brief pack_pair() of bf16.
inline unsigned pack_bf16(float low, float high) { return pack_pair<bf16>(low, high); }

/// @brief unpack_pair() of bf16.
inline float2 unpack_bf16(unsigned packed) { return unpack_pair<bf16>(packed); }

}  // namespace ultra::simt

#endif
