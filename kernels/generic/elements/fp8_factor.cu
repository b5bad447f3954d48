// A left factor: a warp for each group of a row, four elements a lane.
//
// A right factor, and what is turned: a block for each square. A warp reads 32 lines of it, as they
// lie in memory, four elements a lane, which wait in registers until the largest is known. Where lines
// run along the depth, their codes are written as they lie. Else a lane has 32 neighbours along the
// depth of four rows: 32 bytes of each.

#include "kernels/generic/elements/fp8_factor.hpp"

#include <cmath>
#include <type_traits>

#include "kernels/generic/functions.cuh"
#include "kernels/simt/pack.cuh"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

constexpr int kThreads = 128;  // for a square
constexpr int kWarps = kThreads / 32;
constexpr int kLines = kFp8Group / kWarps;  // of a warp
constexpr int kWidth = kFp8Group / 32;      // elements of a lane in a line
constexpr int kPiece = 16;                  // bytes of an access
constexpr float kLargestF32 = 3.402823466e38F;

using Elements = Pack<bf16, kWidth>;

__device__ __forceinline__ float power_of_two(int exponent) {
  return __builtin_bit_cast(float, static_cast<unsigned>(exponent + 127) << 23U);
}

// The exponent of the largest power of two, up to 2^126, that times this number is at most the format's largest:
// 448 = 1.75 x 2^8, or 57344 = 1.75 x 2^15.
template <typename Code>
__device__ __forceinline__ int exponent_to_fill(float largest) {
  constexpr int kLargestExponent = std::is_same_v<Code, fp8_e5m2> ? 15 : 8;
  if (!(largest > 0.0F && largest <= kLargestF32)) {
    return 0;
  }
  const unsigned bits = __builtin_bit_cast(unsigned, largest);
  const int exponent = static_cast<int>(bits >> 23U) - 127;
  const bool fits = (bits & 0x7fffffU) <= 0x600000U;
  const int to_fill = kLargestExponent - exponent - (fits ? 0 : 1);
  return to_fill > 126 ? 126 : to_fill;
}

// NaN is passed over.
__device__ __forceinline__ float largest_of(const Elements& elements) {
  float largest = 0.0F;
#pragma unroll
  for (int e = 0; e < kWidth; ++e) {
    largest = fmaxf(largest, fabsf(static_cast<float>(elements.values[e])));
  }
  return largest;
}

template <typename Code>
__device__ __forceinline__ Pack<Code, kWidth> codes_of(const Elements& elements, float up) {
  Pack<Code, kWidth> codes;
#pragma unroll
  for (int e = 0; e < kWidth; ++e) {
    codes.values[e] = Code(static_cast<float>(elements.values[e]) * up);
  }
  return codes;
}

template <typename Code>
__global__ void pack_groups_kernel(const Fp8Factor factor, std::size_t groups, Code* codes,
                                   float* scales) {
  const std::size_t number = row_of_warp();
  if (number >= factor.rows * groups) {
    return;
  }
  const std::size_t row = number / groups;
  const std::size_t lane = threadIdx.x % 32;
  const std::size_t place = number % groups * kFp8Group + lane * kWidth;
  Elements elements{};
  if (place < factor.depth) {
    elements = ldg(reinterpret_cast<const Elements*>(factor.x + row * factor.depth + place));
  }
  const int exponent = exponent_to_fill<Code>(warp_max(largest_of(elements)));
  stg(reinterpret_cast<Pack<Code, kWidth>*>(codes + number * kFp8Group + lane * kWidth),
      codes_of<Code>(elements, power_of_two(exponent)));
  if (lane == 0) {
    stg(&scales[number], power_of_two(-exponent));
  }
}

// The largest of what the threads of a block have, in each of them.
__device__ __forceinline__ float largest_of_block(float own, float (&of_warps)[kWarps]) {
  const float of_warp = warp_max(own);
  if (threadIdx.x % 32 == 0) {
    sts(&of_warps[threadIdx.x / 32], of_warp);
  }
  __syncthreads();  // else a warp reads what others have not written
  float largest = 0.0F;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    largest = fmaxf(largest, lds(&of_warps[warp]));
  }
  return largest;
}

template <bool is_turned, typename Code>
__global__ void __launch_bounds__(kThreads)
    pack_squares_kernel(const Fp8Factor factor, Code* codes, float* scales) {
  __shared__ float of_warps[kWarps];
  const std::size_t warp_line = threadIdx.x / 32 * kLines;  // the warp's first in the square
  const std::size_t lane_element = threadIdx.x % 32 * kWidth;
  const std::size_t groups = gridDim.y;
  const std::size_t row = std::size_t{blockIdx.x} * kFp8Group;
  const std::size_t place = std::size_t{blockIdx.y} * kFp8Group;
  const std::size_t line = (is_turned ? place : row) + warp_line;
  const std::size_t lines = is_turned ? factor.depth : factor.rows;
  const std::size_t element = (is_turned ? row : place) + lane_element;
  const std::size_t length = is_turned ? factor.rows : factor.depth;

  Elements elements[kLines];
  float own = 0.0F;
#pragma unroll
  for (int i = 0; i < kLines; ++i) {
    elements[i] = Elements{};
    if (line + i < lines && element < length) {
      elements[i] =
          ldg(reinterpret_cast<const Elements*>(factor.x + (line + i) * length + element));
    }
    own = fmaxf(own, largest_of(elements[i]));
  }
  const int exponent = exponent_to_fill<Code>(largest_of_block(own, of_warps));
  const float up = power_of_two(exponent);
  if (!factor.is_left) {
    if (threadIdx.x == 0) {
      stg(&scales[blockIdx.x * groups + blockIdx.y], power_of_two(-exponent));
    }
  } else if (row + threadIdx.x < factor.rows) {
    stg(&scales[(row + threadIdx.x) * groups + blockIdx.y], power_of_two(-exponent));
  }
  const std::size_t depth = groups * kFp8Group;  // of codes
  if constexpr (is_turned) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const std::size_t own_row = row + lane_element + e;
#pragma unroll
      for (int first = 0; first < kLines; first += kPiece) {
        Pack<Code, kPiece> piece;
#pragma unroll
        for (int i = 0; i < kPiece; ++i) {
          piece.values[i] = Code(static_cast<float>(elements[first + i].values[e]) * up);
        }
        if (own_row < factor.rows) {
          stg(reinterpret_cast<Pack<Code, kPiece>*>(codes + own_row * depth + place + warp_line +
                                                    first),
              piece);
        }
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kLines; ++i) {
      if (line + i < factor.rows) {
        stg(reinterpret_cast<Pack<Code, kWidth>*>(codes + (line + i) * depth + element),
            codes_of<Code>(elements[i], up));
      }
    }
  }
}

template <typename Code>
void launch_pack(const Fp8Factor& factor, Code* codes, float* scales, const Queue& queue) {
  const unsigned groups = ceil_div(factor.depth, kFp8Group);
  if (factor.is_left && !factor.is_turned) {
    return launch_rows(pack_groups_kernel<Code>, "pack_groups", factor.rows * groups, queue, factor,
                       std::size_t{groups}, codes, scales);
  }
  launch(factor.is_turned ? pack_squares_kernel<true, Code> : pack_squares_kernel<false, Code>,
         {.name = "pack_squares",
          .grid = {.x = ceil_div(factor.rows, kFp8Group), .y = groups},
          .block = {.x = kThreads},
          .queue = queue},
         factor, codes, scales);
}

}  // namespace

template <>
void pack_factor<kExecutor>(const Fp8Factor& factor, void* codes, float* scales,
                            const Queue& queue) {
  if (factor.is_e5m2) {
    launch_pack(factor, static_cast<fp8_e5m2*>(codes), scales, queue);
  } else {
    launch_pack(factor, static_cast<fp8_e4m3*>(codes), scales, queue);
  }
}

}  // namespace ultra::kernels::generic
