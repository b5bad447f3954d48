#pragma once
/// @file
/// wgmma with factors of fp8, on every executor: of e4m3, or the left one of e5m2, as gradients are. A row
/// of 128 bytes has 128 elements along the depth where bf16 has 64, and an instruction multiplies 32 of
/// them: in bytes, tiles, descriptors and steps are those of bf16. Both factors lie by rows: wgmma
/// transposes none of a byte's elements.
/// Source: PTX ISA, "wgmma.mma_async", .e4m3 and .e5m2.

#include <type_traits>

#include "kernels/hopper/wgmma.cuh"

namespace ultra::kernels::hopper {
namespace {

#if defined(__CUDACC__)
// A type is a part of the instruction's name, which no parameter of asm can be.
#define ULTRA_MULTIPLY_FP8(left)                                                                  \
  asm volatile(                                                                                   \
      "{\n"                                                                                       \
      ".reg .pred adds;\n"                                                                        \
      "setp.ne.s32 adds, %66, 0;\n"                                                               \
      "wgmma.mma_async.sync.aligned.m64n128k32.f32." left                                         \
      ".e4m3 "                                                                                    \
      "{"                                                                                         \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "     \
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "     \
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "     \
      "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "                                  \
      "%64, %65, adds, 1, 1;\n"                                                                   \
      "}"                                                                                         \
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), \
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]),               \
        "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]),           \
        "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]),           \
        "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]),           \
        "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]),           \
        "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]),           \
        "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]),           \
        "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]),           \
        "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]),           \
        "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]),           \
        "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]),           \
        "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63])                                            \
      : "l"(a), "l"(b), "r"(static_cast<int>(adds))                                               \
      : "memory")
/// @brief sums [64, 128] = a [64, 32] transpose(b [128, 32]), added to sums only where `adds`.
/// @tparam Left  of a: simt::fp8_e4m3 or simt::fp8_e5m2; b is of e4m3.
template <typename Left>
__device__ __forceinline__ void multiply_fp8_async(float (&sums)[64], unsigned long long a,
                                                   unsigned long long b, bool adds) {
  if constexpr (std::is_same_v<Left, simt::fp8_e5m2>) {
    ULTRA_MULTIPLY_FP8("e5m2");
  } else {
    ULTRA_MULTIPLY_FP8("e4m3");
  }
}
#undef ULTRA_MULTIPLY_FP8
#else
/// @brief sums [64, 128] = a [64, 32] transpose(b [128, 32]), added to sums only where `adds`.
/// @tparam Left  of a: simt::fp8_e4m3 or simt::fp8_e5m2; b is of e4m3.
template <typename Left>
inline void multiply_fp8_async(float (&sums)[64], unsigned long long a, unsigned long long b,
                               bool adds, const char* file = __builtin_FILE(),
                               int line = __builtin_LINE()) {
  simt::emulator::multiply_async(
      {.sums = sums,
       .columns = 128,
       .left = nullptr,
       .a = a,
       .b = b,
       .a_major = simt::emulator::Major::kRows,
       .b_major = simt::emulator::Major::kRows,
       .adds = adds,
       .element = std::is_same_v<Left, simt::fp8_e5m2> ? simt::emulator::Element::kE5m2ByE4m3
                                                       : simt::emulator::Element::kE4m3},
      {.file = file, .line = line});
}
#endif

}  // namespace
}  // namespace ultra::kernels::hopper
