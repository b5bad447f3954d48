#pragma once
/// @file
/// CUDA's barriers and warp operations under CUDA's names, for the emulator. All but the block's
/// barrier are one primitive: the lanes of the mask meet, and the last one to come works out the
/// result of each. The header `cmath` has the functions of numbers that CUDA shares with C: expf, logf,
/// fmaxf ...

#include <bit>
#include <cmath>  // before __expf() below, which the C library declares, too
#include <cstdint>
#include <span>

#include "kernels/simt/emulator/hooks.hpp"
#include "kernels/simt/emulator/language/vector_types.hpp"

namespace ultra::simt::emulator {

/// @brief What a lane brings to a shuffle.
template <typename T>
struct Shuffled {
  /// @brief The lane's own value.
  T given;
  /// @brief The lane to read from.
  int source;
  /// @brief What that lane gave.
  T taken;
};

/// @brief Gives each lane of a shuffle its source's value.
template <typename T>
void resolve_shuffle(std::span<void* const, 32> deposits, LaneMask mask) {
  for (LaneMask rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    auto& own = *static_cast<Shuffled<T>*>(deposits[static_cast<std::size_t>(lane)]);
    if ((mask >> own.source & 1U) == 0) {
      refuse_source(lane, own.source, mask);
    }
    own.taken = static_cast<Shuffled<T>*>(deposits[static_cast<std::size_t>(own.source)])->given;
  }
}

/// @brief One lane's shuffle.
template <typename T>
T shuffle(LaneMask mask, T value, int source, const char* name, SourceLine place) {
  Shuffled<T> deposit{.given = value, .source = source, .taken = value};
  meet({.mask = mask,
        .resolve = &resolve_shuffle<T>,
        .deposit = &deposit,
        .name = name,
        .place = place});
  return deposit.taken;
}

/// @brief The lanes of the mask whose predicate holds.
LaneMask vote(LaneMask mask, bool predicate, const char* name, SourceLine place);

/// @brief __syncwarp().
void synchronise_warp(LaneMask mask, SourceLine place);

}  // namespace ultra::simt::emulator

/// @brief Waits for all threads of the block; what was written to shared memory before can be read
/// after it.
inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  ultra::simt::emulator::wait_at_barrier({.file = file, .line = line});
}

/// @brief Waits for the lanes of the mask; what they wrote to shared memory before can be read
/// after it.
inline void __syncwarp(unsigned mask = 0xffffffffU, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  ultra::simt::emulator::synchronise_warp(mask, {.file = file, .line = line});
}

/// @brief Orders accesses of memory; the emulator makes them in order anyway.
inline void __threadfence() {}
/// @brief Orders accesses of memory; the emulator makes them in order anyway.
inline void __threadfence_block() {}

/// @brief The value of lane `source`, counted from the start of this lane's `width` lanes.
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const int lane = ultra::simt::emulator::lane_index();
  const int first = lane & ~(width - 1);
  return ultra::simt::emulator::shuffle(mask, value, first + (source & (width - 1)), "__shfl_sync",
                                        {.file = file, .line = line});
}

/// @brief The value of the lane `delta` below; its own where there is none among its `width` lanes.
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const int lane = ultra::simt::emulator::lane_index();
  const int source = lane - static_cast<int>(delta);
  return ultra::simt::emulator::shuffle(mask, value, source < (lane & ~(width - 1)) ? lane : source,
                                        "__shfl_up_sync", {.file = file, .line = line});
}

/// @brief The value of the lane `delta` above; its own where there is none among its `width` lanes.
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const int lane = ultra::simt::emulator::lane_index();
  const int source = lane + static_cast<int>(delta);
  return ultra::simt::emulator::shuffle(mask, value, source > (lane | (width - 1)) ? lane : source,
                                        "__shfl_down_sync", {.file = file, .line = line});
}

/// @brief The value of the lane whose index differs in the bits of `lane_bits`.
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_bits, int width = 32,
                  const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const int lane = ultra::simt::emulator::lane_index();
  const int source = lane ^ lane_bits;
  return ultra::simt::emulator::shuffle(mask, value, source > (lane | (width - 1)) ? lane : source,
                                        "__shfl_xor_sync", {.file = file, .line = line});
}

/// @brief The lanes of the mask whose predicate is not 0, one bit each.
inline unsigned __ballot_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  return ultra::simt::emulator::vote(mask, predicate != 0, "__ballot_sync",
                                     {.file = file, .line = line});
}

/// @brief Whether any lane's predicate is not 0.
inline int __any_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  return ultra::simt::emulator::vote(mask, predicate != 0, "__any_sync",
                                     {.file = file, .line = line}) != 0
             ? 1
             : 0;
}

/// @brief Whether every lane's predicate is not 0.
inline int __all_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  return ultra::simt::emulator::vote(mask, predicate == 0, "__all_sync",
                                     {.file = file, .line = line}) == 0
             ? 1
             : 0;
}

/// @brief How many bits are 1.
inline int __popc(unsigned bits) { return std::popcount(bits); }
/// @brief The number of the lowest bit that is 1, counted from 1; 0 when there is none.
inline int __ffs(int bits) { return __builtin_ffs(bits); }
/// @brief 1 / sqrt(x).
inline float rsqrtf(float x) { return 1.0F / __builtin_sqrtf(x); }
/// @brief exp(x); a GPU's is less accurate.
inline float __expf(float x) { return __builtin_expf(x); }
/// @brief x / y; a GPU's is less accurate.
inline float __fdividef(float x, float y) { return x / y; }
/// @brief sin(pi x) and cos(pi x). CUDA has it because it needs no pi and no long division of x.
inline void sincospif(float x, float* sine, float* cosine) {
  const double turns = std::remainder(static_cast<double>(x), 2.0);
  constexpr double kPi = 3.14159265358979323846;
  *sine = static_cast<float>(std::sin(kPi * turns));
  *cosine = static_cast<float>(std::cos(kPi * turns));
}
