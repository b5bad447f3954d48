// A thread for each element, or for each word of codes. Largest magnitudes: a warp for each run of a row
// that lies in one tile, then a warp for each tile over its rows.

#include "kernels/generic/elements/fp8_grid.hpp"

#include "kernels/generic/functions.cuh"
#include "kernels/generic/numbers.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

constexpr float kLargestF32 = 3.402823466e38F;
constexpr std::size_t kCodesOfWord = 4;

// The tile of an element of the part.
__device__ __forceinline__ std::size_t tile_of(const TiledPart& part, std::size_t row,
                                               std::size_t column) {
  return (part.first_row + row) / part.tile_rows * part.tiles_of_row +
         (part.first_column + column) / part.tile_columns;
}

// A number of f32 and how its bits are laid out.
template <typename T>
struct Bits {
  using Word = unsigned;
  static constexpr int kFraction = 23;
};
template <>
struct Bits<double> {
  using Word = unsigned long long;
  static constexpr int kFraction = 52;
};

template <typename T>
__device__ __forceinline__ T magnitude_of(T x) {
  return x < T(0) ? -x : x;
}

// 2^exponent, where that is a normal number.
__device__ __forceinline__ float power_of_two(int exponent) {
  return __builtin_bit_cast(float, static_cast<unsigned>(exponent + 127) << 23U);
}

// The exponent of the smallest normal number.
__device__ __forceinline__ int smallest_exponent(const Fp8Format& format) {
  return 1 - format.bias;
}

// The nearest number of the format, ties to even; it may be one above the largest.
template <typename T>
__device__ __forceinline__ T nearest(T magnitude, const Fp8Format& format) {
  using Word = typename Bits<T>::Word;
  constexpr int kFraction = Bits<T>::kFraction;
  if (magnitude < static_cast<T>(power_of_two(smallest_exponent(format)))) {
    // A sum with this number has the last place of the subnormal numbers.
    const T step = static_cast<T>(power_of_two(smallest_exponent(format) - format.fraction_bits));
    const T whole = step * static_cast<T>(Word{1} << kFraction);
    return (magnitude + whole) - whole;
  }
  const int dropped = kFraction - format.fraction_bits;
  const Word bits = __builtin_bit_cast(Word, magnitude);
  const Word odd = bits >> dropped & 1U;
  const Word carried = (bits + (Word{1} << (dropped - 1)) - 1 + odd) >> dropped << dropped;
  return __builtin_bit_cast(T, carried);
}

template <typename T>
__device__ __forceinline__ T on_grid(T x, const Fp8Format& format) {
  if (x != x) {
    return x;
  }
  const T all = magnitude_of(x);
  const T largest = static_cast<T>(format.largest);
  const T rounded = nearest(all > largest ? largest : all, format);
  using Word = typename Bits<T>::Word;
  const Word sign = __builtin_bit_cast(Word, x) >> (sizeof(Word) * 8 - 1) << (sizeof(Word) * 8 - 1);
  return __builtin_bit_cast(T, __builtin_bit_cast(Word, rounded) | sign);
}

// A NaN becomes 0, and what f32 does not hold becomes infinite.
template <typename T>
__device__ __forceinline__ float magnitude_or_zero(T x) {
  return x == x ? static_cast<float>(magnitude_of(x)) : 0.0F;
}

template <typename T>
__global__ void amax_of_runs_kernel(TiledPart part, float* of_rows, Source x) {
  const std::size_t run = row_of_warp();
  if (run >= part.rows * part.tiles_of_row) {
    return;
  }
  const std::size_t row = run / part.tiles_of_row;
  const std::size_t tile = run % part.tiles_of_row;
  const std::size_t end = part.first_column + part.columns;
  const std::size_t tile_end = (tile + 1) * part.tile_columns;
  const std::size_t tile_begin = tile * part.tile_columns;
  const std::size_t from = tile_begin > part.first_column ? tile_begin : part.first_column;
  const std::size_t to = tile_end < end ? tile_end : end;
  float own = 0.0F;
  for (std::size_t column = from + threadIdx.x % 32; column < to; column += 32) {
    const std::size_t index = row * part.columns + column - part.first_column;
    const float magnitude = magnitude_or_zero(load<T>(x, index));
    own = own < magnitude ? magnitude : own;
  }
  const float largest = warp_max(own);
  if (threadIdx.x % 32 == 0) {
    stg(&of_rows[run], largest);
  }
}

__global__ void amax_of_tiles_kernel(TiledPart part, float* amax, const float* of_rows) {
  const std::size_t tile = row_of_warp();
  if (tile >= part.tiles) {
    return;
  }
  const std::size_t tile_row = tile / part.tiles_of_row;
  const std::size_t begin = tile_row * part.tile_rows;
  const std::size_t end = begin + part.tile_rows;
  const std::size_t part_end = part.first_row + part.rows;
  const std::size_t from = begin > part.first_row ? begin : part.first_row;
  const std::size_t to = end < part_end ? end : part_end;
  float own = 0.0F;
  for (std::size_t row = from + threadIdx.x % 32; row < to; row += 32) {
    const std::size_t run = (row - part.first_row) * part.tiles_of_row + tile % part.tiles_of_row;
    const float largest = ldg(&of_rows[run]);
    own = own < largest ? largest : own;
  }
  const float all = warp_max(own);
  if (threadIdx.x % 32 == 0) {
    stg(&amax[tile], all);
  }
}

// floor(log2(largest / amax)), of a quotient in f64, which is neither 0 nor infinite nor subnormal.
__device__ __forceinline__ int exponent_of_quotient(float largest, float amax) {
  const double quotient = static_cast<double>(largest) / static_cast<double>(amax);
  const auto bits = __builtin_bit_cast(unsigned long long, quotient);
  return static_cast<int>(bits >> 52U & 0x7FFU) - 1023;
}

__device__ __forceinline__ float scale_of(float amax, const Fp8Format& format, int margin) {
  if (!(amax > 0.0F && amax <= kLargestF32)) {
    return 1.0F;
  }
  const int exponent = exponent_of_quotient(format.largest, amax) - margin;
  return power_of_two(exponent < -126 ? -126 : exponent > 126 ? 126 : exponent);
}

__global__ void scales_kernel(float* amax, std::size_t count, Fp8Format format, int margin) {
  const std::size_t index = global_thread();
  if (index < count) {
    stg(&amax[index], scale_of(ldg(&amax[index]), format, margin));
  }
}

// Histories are short: one warp, of which one lane writes.
__global__ void history_kernel(float* scale, float* history, std::size_t length, Fp8Format format,
                               int margin, bool notes) {
  float own = 0.0F;
  for (std::size_t i = 1 + threadIdx.x; i < length; i += 32) {
    const float amax = ldg(&history[i]);
    own = own < amax ? amax : own;
  }
  const float ended = warp_max(own);
  if (threadIdx.x != 0) {
    return;
  }
  const float amax = ldg(scale);
  const float noted = ldg(history);
  if (notes && noted < amax) {
    stg(history, amax);
  }
  stg(scale, scale_of(ended, format, margin));
}

template <typename T>
__global__ void round_kernel(TiledPart part, Target out, Source x, const float* scales,
                             Fp8Format format) {
  const std::size_t index = global_thread();
  if (index >= part.rows * part.columns) {
    return;
  }
  const std::size_t tile = tile_of(part, index / part.columns, index % part.columns);
  const T up = static_cast<T>(ldg(&scales[tile]));
  const T down = T(1) / up;
  store(out, index, on_grid(load<T>(x, index) * up, format) * down);
}

// The code of a number of the format.
__device__ __forceinline__ unsigned code_of(float number, const Fp8Format& format) {
  const unsigned bits = __builtin_bit_cast(unsigned, number);
  const unsigned sign = bits >> 24U & 0x80U;
  const float size = magnitude_of(number);
  if (number != number) {
    return sign | 0x7FU;
  }
  if (size < power_of_two(smallest_exponent(format))) {
    const int last_place = smallest_exponent(format) - format.fraction_bits;
    return sign | static_cast<unsigned>(size * power_of_two(-last_place));
  }
  const unsigned biases = static_cast<unsigned>(127 - format.bias) << format.fraction_bits;
  return sign | (((bits & 0x7FFFFFFFU) >> (23 - format.fraction_bits)) - biases);
}

template <typename T>
__global__ void pack_kernel(TiledPart part, std::int32_t* codes, std::size_t words, Source x,
                            const float* scales, Fp8Format format) {
  const std::size_t index = global_thread();
  if (index >= part.rows * words) {
    return;
  }
  const std::size_t row = index / words;
  const std::size_t first = index % words * kCodesOfWord;
  unsigned word = 0;
  for (std::size_t i = 0; i < kCodesOfWord && first + i < part.columns; ++i) {
    const float scale = ldg(&scales[tile_of(part, row, first + i)]);
    const T number = load<T>(x, row * part.columns + first + i);
    word |= code_of(static_cast<float>(number) * scale, format) << (8 * i);
  }
  stg(&codes[index], static_cast<std::int32_t>(word));
}

// The number of a code. All ones are infinite or no number in E5M2, and no number in E4M3.
__device__ __forceinline__ float number_of(unsigned code, const Fp8Format& format) {
  const unsigned magnitude = code & 0x7FU;
  const unsigned fraction = magnitude & ((1U << format.fraction_bits) - 1U);
  const unsigned exponent = magnitude >> format.fraction_bits;
  const bool is_e5m2 = format.fraction_bits == 2;
  float number = 0.0F;
  if (is_e5m2 ? exponent == 31U : magnitude == 0x7FU) {
    number = is_e5m2 && fraction == 0 ? __builtin_huge_valf() : __builtin_nanf("");
  } else if (exponent == 0) {
    number = static_cast<float>(fraction) *
             power_of_two(smallest_exponent(format) - format.fraction_bits);
  } else {
    const unsigned shift = static_cast<unsigned>(23 - format.fraction_bits);
    number = __builtin_bit_cast(
        float, (exponent + 127U - static_cast<unsigned>(format.bias)) << 23U | fraction << shift);
  }
  return (code & 0x80U) != 0 ? -number : number;
}

template <typename T>
__global__ void unpack_kernel(TiledPart part, Target out, const std::int32_t* codes,
                              std::size_t words, const float* scales, Fp8Format format) {
  const std::size_t index = global_thread();
  if (index >= part.rows * part.columns) {
    return;
  }
  const std::size_t row = index / part.columns;
  const std::size_t column = index % part.columns;
  const auto word = static_cast<unsigned>(ldg(&codes[row * words + column / kCodesOfWord]));
  const unsigned code = word >> (8 * (column % kCodesOfWord)) & 0xFFU;
  const T down = T(1) / static_cast<T>(ldg(&scales[tile_of(part, row, column)]));
  store(out, index, static_cast<T>(number_of(code, format)) * down);
}

}  // namespace

template <>
void amax_of_tiles<kExecutor>(const TiledPart& part, float* amax, const Source& x, float* of_rows,
                              const Queue& queue) {
  launch_rows(sums_in_f64(x.number) ? amax_of_runs_kernel<double> : amax_of_runs_kernel<float>,
              "amax_of_runs", part.rows * part.tiles_of_row, queue, part, of_rows, x);
  launch_rows(amax_of_tiles_kernel, "amax_of_tiles", part.tiles, queue, part, amax,
              static_cast<const float*>(of_rows));
}

template <>
void power_of_two_scales<kExecutor>(float* amax, std::size_t count, const Fp8Format& format,
                                    int margin, const Queue& queue) {
  launch_each(scales_kernel, "power_of_two_scales", count, queue, amax, count, format, margin);
}

template <>
void scale_from_history<kExecutor>(float* scale, float* history, std::size_t length,
                                   const Fp8Format& format, int margin, bool notes,
                                   const Queue& queue) {
  launch(history_kernel,
         {.name = "scale_from_history", .grid = {.x = 1}, .block = {.x = 32}, .queue = queue},
         scale, history, length, format, margin, notes);
}

template <>
void round_to_grid<kExecutor>(const TiledPart& part, const Target& out, const Source& x,
                              const float* scales, const Fp8Format& format, const Queue& queue) {
  launch_each(sums_in_f64(x.number) ? round_kernel<double> : round_kernel<float>, "round_to_grid",
              part.rows * part.columns, queue, part, out, x, scales, format);
}

template <>
void pack_fp8<kExecutor>(const TiledPart& part, std::int32_t* codes, std::size_t words,
                         const Source& x, const float* scales, const Fp8Format& format,
                         const Queue& queue) {
  launch_each(sums_in_f64(x.number) ? pack_kernel<double> : pack_kernel<float>, "pack_fp8",
              part.rows * words, queue, part, codes, words, x, scales, format);
}

template <>
void unpack_fp8<kExecutor>(const TiledPart& part, const Target& out, const std::int32_t* codes,
                           std::size_t words, const float* scales, const Fp8Format& format,
                           const Queue& queue) {
  launch_each(sums_in_f64(out.number) ? unpack_kernel<double> : unpack_kernel<float>, "unpack_fp8",
              part.rows * part.columns, queue, part, out, codes, words, scales, format);
}

}  // namespace ultra::kernels::generic
