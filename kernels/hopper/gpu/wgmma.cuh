#pragma once
/// @file
/// wgmma and setmaxnreg on a GPU. kernels/hopper/emulator/wgmma.hpp has the same for the emulator.

#include "kernels/hopper/tma.cuh"

namespace ultra::kernels::hopper {
namespace {

/// @brief Gives registers back: from here on, each thread of the warpgroup has `count`.
template <int count>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

/// @brief Takes registers that others have given back: each thread of the warpgroup gets `count`.
template <int count>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

/// @brief Orders this thread's registers before products; a warp's lanes call it together.
__device__ __forceinline__ void fence_registers() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// @brief Makes a group of the products since the last one.
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// @brief Waits for all groups of this warpgroup but the `pending` latest.
template <int pending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/// @brief Ends the kernel with an error.
__device__ __forceinline__ void stop_kernel() { asm volatile("trap;"); }

/// @brief Keeps the compiler from moving what it does with sums over this line: behind a wait,
/// reads of them; before the first product, their zeros.
template <int parts, int count>
__device__ __forceinline__ void hold_in_place(float (&sums)[parts][count]) {
#pragma unroll
  for (int part = 0; part < parts; ++part) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      asm volatile("" : "+f"(sums[part][i])::"memory");
    }
  }
}

/// @brief hold_in_place() of left factors.
template <int steps>
__device__ __forceinline__ void hold_in_place(unsigned (&left)[steps][4]) {
#pragma unroll
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      asm volatile("" : "+r"(left[step][i])::"memory");
    }
  }
}

/// @brief sums [64, 64] += a [64, 16] transpose(b [64, 16]).
__device__ __forceinline__ void multiply_async(float (&sums)[32], unsigned long long a,
                                               unsigned long long b) {
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.eq.u32 adds, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, adds, 1, 1, 0, 0;\n"
      "}"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
        "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]),
        "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]),
        "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]),
        "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31])
      : "l"(a), "l"(b)
      : "memory");
}

/// @brief sums [64, 128] += a [64, 16] transpose(b [128, 16]).
__device__ __forceinline__ void multiply_async(float (&sums)[64], unsigned long long a,
                                               unsigned long long b) {
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.eq.u32 adds, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, adds, 1, 1, 0, 0;\n"
      "}"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
        "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]),
        "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]),
        "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]),
        "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]),
        "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]),
        "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]),
        "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]),
        "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]),
        "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]),
        "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]),
        "+f"(sums[62]), "+f"(sums[63])
      : "l"(a), "l"(b)
      : "memory");
}

/// @brief sums [64, 256] += a [64, 16] transpose(b [256, 16]); where a factor `turns`, it is as
/// describe_by_depth() has it.
template <bool a_turns, bool b_turns>
__device__ __forceinline__ void multiply_turned_async(float (&sums)[128], unsigned long long a,
                                                      unsigned long long b) {
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.eq.u32 adds, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "
      "%127}, "
      "%128, %129, adds, 1, 1, %130, %131;\n"
      "}"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
        "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]),
        "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]),
        "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]),
        "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]),
        "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]),
        "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]),
        "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]),
        "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]),
        "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]),
        "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]),
        "+f"(sums[62]), "+f"(sums[63]), "+f"(sums[64]), "+f"(sums[65]), "+f"(sums[66]),
        "+f"(sums[67]), "+f"(sums[68]), "+f"(sums[69]), "+f"(sums[70]), "+f"(sums[71]),
        "+f"(sums[72]), "+f"(sums[73]), "+f"(sums[74]), "+f"(sums[75]), "+f"(sums[76]),
        "+f"(sums[77]), "+f"(sums[78]), "+f"(sums[79]), "+f"(sums[80]), "+f"(sums[81]),
        "+f"(sums[82]), "+f"(sums[83]), "+f"(sums[84]), "+f"(sums[85]), "+f"(sums[86]),
        "+f"(sums[87]), "+f"(sums[88]), "+f"(sums[89]), "+f"(sums[90]), "+f"(sums[91]),
        "+f"(sums[92]), "+f"(sums[93]), "+f"(sums[94]), "+f"(sums[95]), "+f"(sums[96]),
        "+f"(sums[97]), "+f"(sums[98]), "+f"(sums[99]), "+f"(sums[100]), "+f"(sums[101]),
        "+f"(sums[102]), "+f"(sums[103]), "+f"(sums[104]), "+f"(sums[105]), "+f"(sums[106]),
        "+f"(sums[107]), "+f"(sums[108]), "+f"(sums[109]), "+f"(sums[110]), "+f"(sums[111]),
        "+f"(sums[112]), "+f"(sums[113]), "+f"(sums[114]), "+f"(sums[115]), "+f"(sums[116]),
        "+f"(sums[117]), "+f"(sums[118]), "+f"(sums[119]), "+f"(sums[120]), "+f"(sums[121]),
        "+f"(sums[122]), "+f"(sums[123]), "+f"(sums[124]), "+f"(sums[125]), "+f"(sums[126]),
        "+f"(sums[127])
      : "l"(a), "l"(b), "n"(static_cast<int>(a_turns)), "n"(static_cast<int>(b_turns))
      : "memory");
}

/// @brief sums [64, 256] += a [64, 16] transpose(b [256, 16]).
__device__ __forceinline__ void multiply_async(float (&sums)[128], unsigned long long a,
                                               unsigned long long b) {
  multiply_turned_async<false, false>(sums, a, b);
}

}  // namespace
}  // namespace ultra::kernels::hopper
