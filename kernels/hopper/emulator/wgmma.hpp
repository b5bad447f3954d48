#pragma once
/// @file
/// wgmma and setmaxnreg for the emulator (kernels/simt/emulator/async). kernels/hopper/gpu/wgmma.cuh and
/// wgmma_registers.cuh have the same for a GPU.

#include <type_traits>

#include "kernels/hopper/tma.cuh"
#include "kernels/simt/small_floats.cuh"

namespace ultra::kernels::hopper {
namespace {

/// @brief Gives registers back: from here on, each thread of the warpgroup has `count`.
template <int count>
void give_registers(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  static_assert(count % 8 == 0 && count >= 24 && count <= 256, "setmaxnreg takes 24 to 256 by 8");
  simt::emulator::set_registers(simt::emulator::Registers::kGive, count,
                                {.file = file, .line = line});
}

/// @brief Takes registers that others have given back: each thread of the warpgroup gets `count`.
template <int count>
void take_registers(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  static_assert(count % 8 == 0 && count >= 24 && count <= 256, "setmaxnreg takes 24 to 256 by 8");
  simt::emulator::set_registers(simt::emulator::Registers::kTake, count,
                                {.file = file, .line = line});
}

/// @brief Orders this thread's registers before products; a warp's lanes call it together.
inline void fence_registers(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::begin_products({.file = file, .line = line});
}

/// @brief Makes a group of the products since the last one.
inline void commit_products(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::commit_products({.file = file, .line = line});
}

/// @brief Waits for all groups of this warpgroup but the `pending` latest.
template <int pending>
void wait_for_products(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::wait_for_products(pending, {.file = file, .line = line});
}

/// @brief Ends the kernel with an error.
[[noreturn]] inline void stop_kernel(const char* file = __builtin_FILE(),
                                     int line = __builtin_LINE()) {
  simt::emulator::stop_kernel({.file = file, .line = line});
}

/// @brief The emulator's products finish at waits, wherever the compiler moves reads of sums.
template <int parts, int count>
void hold_in_place(float (&)[parts][count]) {}

/// @brief hold_in_place() of left factors.
template <int steps>
void hold_in_place(unsigned (&)[steps][4]) {}

/// @brief How the emulator names elements of bf16 or half.
template <typename T>
constexpr simt::emulator::Element kElement =
    std::is_same_v<T, simt::half> ? simt::emulator::Element::kF16 : simt::emulator::Element::kBf16;

/// @brief sums [64, 2 count] = a [64, 16] transpose(b [2 count, 16]), added to sums only where `adds`.
template <typename T = simt::bf16, int count>
void multiply_async(float (&sums)[count], unsigned long long a, unsigned long long b, bool adds,
                    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::multiply_async({.sums = sums,
                                  .columns = 2 * count,
                                  .left = nullptr,
                                  .a = a,
                                  .b = b,
                                  .a_major = simt::emulator::Major::kRows,
                                  .b_major = simt::emulator::Major::kRows,
                                  .adds = adds,
                                  .element = kElement<T>},
                                 {.file = file, .line = line});
}

/// @brief sums [64, 2 count] += a [64, 16] transpose(b [2 count, 16]).
template <int count>
void multiply_async(float (&sums)[count], unsigned long long a, unsigned long long b,
                    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  multiply_async(sums, a, b, true, file, line);
}

/// @brief multiply_async() where a factor that `turns` is as describe_by_depth() has it.
template <bool a_turns, bool b_turns, int count>
void multiply_turned_async(float (&sums)[count], unsigned long long a, unsigned long long b,
                           const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  using simt::emulator::Major;
  simt::emulator::multiply_async({.sums = sums,
                                  .columns = 2 * count,
                                  .left = nullptr,
                                  .a = a,
                                  .b = b,
                                  .a_major = a_turns ? Major::kDepth : Major::kRows,
                                  .b_major = b_turns ? Major::kDepth : Major::kRows,
                                  .adds = true},
                                 {.file = file, .line = line});
}

/// @brief sums [64, 2 count] = transpose(a [16, 64]) b [16, 2 count], added to sums only where `adds`:
/// both as describe_by_depth() has them.
template <typename T = simt::bf16, int count>
void multiply_by_depth_async(float (&sums)[count], unsigned long long a, unsigned long long b,
                             bool adds, const char* file = __builtin_FILE(),
                             int line = __builtin_LINE()) {
  simt::emulator::multiply_async({.sums = sums,
                                  .columns = 2 * count,
                                  .left = nullptr,
                                  .a = a,
                                  .b = b,
                                  .a_major = simt::emulator::Major::kDepth,
                                  .b_major = simt::emulator::Major::kDepth,
                                  .adds = adds,
                                  .element = kElement<T>},
                                 {.file = file, .line = line});
}

/// @brief sums [64, 2 count] += a [64, 16] b [16, 2 count]: both in shared memory, b as
/// describe_by_depth() has it.
template <typename T = simt::bf16, int count>
void multiply_rows_async(float (&sums)[count], unsigned long long a, unsigned long long b,
                         const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::multiply_async({.sums = sums,
                                  .columns = 2 * count,
                                  .left = nullptr,
                                  .a = a,
                                  .b = b,
                                  .a_major = simt::emulator::Major::kRows,
                                  .b_major = simt::emulator::Major::kDepth,
                                  .adds = true,
                                  .element = kElement<T>},
                                 {.file = file, .line = line});
}

/// @brief sums [64, 2 count] += a [64, 16] b [16, 2 count]: a in registers, b as describe_by_depth() has
/// it.
template <typename T = simt::bf16, int count>
void multiply_async(float (&sums)[count], const unsigned (&a)[4], unsigned long long b,
                    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  simt::emulator::multiply_async({.sums = sums,
                                  .columns = 2 * count,
                                  .left = a,
                                  .a = 0,
                                  .b = b,
                                  .a_major = simt::emulator::Major::kRows,
                                  .b_major = simt::emulator::Major::kDepth,
                                  .adds = true,
                                  .element = kElement<T>},
                                 {.file = file, .line = line});
}

}  // namespace
}  // namespace ultra::kernels::hopper
