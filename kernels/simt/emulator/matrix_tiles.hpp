#pragma once
/// @file
/// ldmatrix and mma.sync for the emulator: the lanes bring their registers together, in PTX's layouts.

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/simt/emulator/access.hpp"
#include "kernels/simt/emulator/hooks.hpp"
#include "kernels/simt/emulator/types.hpp"
#include "kernels/simt/emulator/vector_types.hpp"

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
  /// @brief Two bf16 elements of a each.
  std::array<unsigned, 4> a;
  /// @brief Two bf16 elements of b each.
  std::array<unsigned, 2> b;
  /// @brief Elements of c, and then of d.
  std::array<float, 4> sums;
};

/// @brief Multiplies the lanes' matrices.
void resolve_matrix_product(std::span<void* const, 32> deposits, LaneMask mask);

/// @brief The same where a register has four e4m3 elements: a [16, 32], b [32, 8].
void resolve_matrix_product_e4m3(std::span<void* const, 32> deposits, LaneMask mask);

/// @brief One lane's product of matrices.
void multiply_matrices(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                       const float (&c)[4], const Meeting& meeting);

/// @brief Loads matrices; lanes whose address does not count pass null.
template <Side side, std::size_t matrices, bool transposed>
void load_matrices(unsigned (&registers)[matrices], const void* row, Place place) {
  MatrixLoad deposit{};
  if (static_cast<std::size_t>(lane_index()) < matrices * 8) {
    if constexpr (side == Side::kInstrumented) {
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
template <Side side = kSide>
void load_matrix_x4(unsigned (&registers)[4], const void* row, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  emulator::load_matrices<side, 4, false>(registers, row, {.file = file, .line = line});
}

/// @brief The same, each matrix transposed on its way: register i has elements g of rows 2t and 2t + 1.
template <Side side = kSide>
void load_matrix_x4_transposed(unsigned (&registers)[4], const void* row,
                               const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::load_matrices<side, 4, true>(registers, row, {.file = file, .line = line});
}

/// @brief Two matrices; only the addresses of lanes 0 to 15 count.
template <Side side = kSide>
void load_matrix_x2(unsigned (&registers)[2], const void* row, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  emulator::load_matrices<side, 2, false>(registers, row, {.file = file, .line = line});
}

/// @brief Two matrices, each transposed on its way; only the addresses of lanes 0 to 15 count.
template <Side side = kSide>
void load_matrix_x2_transposed(unsigned (&registers)[2], const void* row,
                               const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::load_matrices<side, 2, true>(registers, row, {.file = file, .line = line});
}

/// @brief d = a b + c with bf16 a [16, 16] and b [16, 8], and c and d [16, 8] in float. d may be c. All
/// lanes of the warp call it.
inline void multiply_accumulate(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                const float (&c)[4], const char* file = __builtin_FILE(),
                                int line = __builtin_LINE()) {
  emulator::multiply_matrices(d, a, b, c,
                              {.mask = emulator::kWholeWarp,
                               .resolve = &emulator::resolve_matrix_product,
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

/// @brief Two floats, rounded to bf16, in one register: `low` in the lower half, which is the lower
/// address.
inline unsigned pack_bf16(float low, float high) {
  return unsigned{bf16(low).bits()} | unsigned{bf16(high).bits()} << 16;
}

/// @brief The two bf16 of a register as floats: x from the lower half.
inline float2 unpack_bf16(unsigned packed) {
  // A bf16 is the upper half of a float.
  return make_float2(std::bit_cast<float>(packed << 16),
                     std::bit_cast<float>(packed & 0xffff0000U));
}

}  // namespace ultra::simt
