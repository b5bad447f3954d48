#pragma once
/// @file
/// wgmma, the tensor cores of Hopper: 128 threads, a *warpgroup*, multiply tiles that lie in shared
/// memory, while they may do something else. Source: PTX ISA, "Asynchronous Warpgroup Level Matrix
/// Instructions".
///
/// Tiles are boxes of tma.cuh: rows of 64 bf16, swizzled; a's has 64 rows, b's as many as c has
/// columns. The sums [64, N] lie so: with g = lane / 4 and t = lane % 4, thread `lane` of warp w of
/// the warpgroup has in sums[4 i] and [4 i + 1] the row 16 w + g, columns 8 i + 2 t and 8 i + 2 t +
/// 1, and in [4 i + 2] and [4 i + 3] the same columns of row 16 w + g + 8.

#include "kernels/hopper/tma.cuh"
#include "kernels/simt/matrix_tiles.cuh"
#include "kernels/simt/simt.cuh"
#include "kernels/simt/small_floats.cuh"

namespace ultra::kernels::hopper {
namespace {

/// @brief Threads of a warpgroup.
constexpr int kWarpgroup = 128;

/// @brief This thread's warpgroup in its block. It comes from one lane of the warp, so that the
/// compiler knows that a warp does not part where warpgroups do.
__device__ __forceinline__ int warpgroup_index() {
  return __shfl_sync(simt::kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
}

/// @brief Waits for the 128 threads of a warpgroup; `name` is 1 to 15, another one for each
/// warpgroup.
__device__ __forceinline__ void synchronise_warpgroup(int name) {
  asm volatile("bar.sync %0, 128;" ::"r"(name) : "memory");
}

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

/// @brief Rows of a that one instruction multiplies.
constexpr int kRows = 64;

/// @brief Instructions along a row of a box: each multiplies 16 elements of the depth.
constexpr int kSteps = 4;

/// @brief A tile as wgmma wants to hear of it: its address, the distance of groups of eight rows
/// (1024 bytes), and the swizzle of 128 bytes. The fields are in units of 16 bytes; the distance
/// along the row (bits 16 to 29) has no meaning with this swizzle. Source: PTX ISA, "Matrix
/// Descriptor Format".
__device__ __forceinline__ unsigned long long describe(const uint4* tile) {
  constexpr unsigned long long kRowGroups = 1024 / 16;
  constexpr unsigned long long kSwizzle128 = 1;
  return (shared_address(tile) & 0x3ffffU) >> 4 | 1ULL << 16 | kRowGroups << 32 | kSwizzle128 << 62;
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

/// @brief sums [64, 256] += a [64, 16] transpose(b [256, 16]).
__device__ __forceinline__ void multiply_async(float (&sums)[128], unsigned long long a,
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
      "%128, %129, adds, 1, 1, 0, 0;\n"
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
      : "l"(a), "l"(b)
      : "memory");
}

/// @brief Begins sums += a transpose(b) over 64 elements of the depth, as one group: a has `parts`
/// x 64 rows, each 64 of them with their own sums. All threads of the warpgroup call it. Each
/// instruction reads 16 elements, 32 bytes, further along the rows; the hardware swizzles the
/// addresses, so that the start moves by those 32 bytes.
template <int parts, int count>
__device__ __forceinline__ void multiply_tiles_async(float (&sums)[parts][count], const uint4* a,
                                                     const uint4* b) {
  const unsigned long long b_tile = describe(b);
  __syncwarp();  // lanes may have left a wait one by one; wgmma is undefined for a part of a warp
  // Registers that other instructions have written are ready for wgmma behind this.
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int part = 0; part < parts; ++part) {
    const unsigned long long a_tile = describe(a + part * kRows * kRowUnits);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      multiply_async(sums[part], a_tile + 2 * step, b_tile + 2 * step);
    }
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// @brief Waits for all groups of this warpgroup but the `pending` latest.
template <int pending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/// @brief Does what computes `impossible` before what follows, which must be a wait for products:
/// work that shall run beside them. `impossible` must be false whatever the inputs are, and the
/// compiler must not be able to know it. A wait moves up past instructions that have nothing to do
/// with its products; past a branch that ends the kernel it does not.
__device__ __forceinline__ void finish_before_wait(bool impossible) {
  if (__any_sync(simt::kAllLanes, impossible)) {
    wait_for_products<0>();
    asm volatile("trap;");
  }
}

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

/// @brief Stores a warpgroup's sums, `parts` x 64 rows from (row, column) of c on, as far as they
/// exist; columns is even.
template <int parts, int count>
__device__ __forceinline__ void store_warpgroup_sums(simt::bf16* c, int row, int column, int rows,
                                                     int columns,
                                                     const float (&sums)[parts][count]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int part = 0; part < parts; ++part) {
    const int top = row + part * kRows + threadIdx.x % kWarpgroup / 32 * 16 + lane / 4;
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const int c_row = top + lower * 8;
      simt::bf16* const first = c + static_cast<std::ptrdiff_t>(c_row) * columns;
#pragma unroll
      for (int i = 0; i < count / 4; ++i) {
        const int c_column = column + i * 8 + lane % 4 * 2;
        if (c_row < rows && c_column < columns) {
          const float* const pair = &sums[part][4 * i + 2 * lower];
          simt::stg(reinterpret_cast<unsigned*>(first + c_column),
                    simt::pack_bf16(pair[0], pair[1]));
        }
      }
    }
  }
}

}  // namespace
}  // namespace ultra::kernels::hopper
