// Exercise 04.10: block quantisation.
//
// Goal:        send numbers in 8 or 4 bits, with one scale for each block of them.
// Length:      about 35 lines
// Difficulty:  medium
// Check:       ./workbook check 04.10
// Hints:       ./workbook hint 04.10
// Targets:     every error is at most half the scale of its block, 0 stays 0;
//              an outlier, NaN or infinity spoils its own block only;
//              ceil(n/block) scales and ceil(n bits/8) bytes, filled up to a multiple of 4
// You will need: put(), number_at() and words_of() (message_words.hpp of chapter 03) for the scales,
//              PackedIntegers (packed_integers.hpp) for the whole numbers, ceil_div() and round_up(),
//              dispatch_float(), HostView
//
// chapters/04_zero/zero_plus_plus/block_quantization.hpp declares the functions. A message is an
// array of i32: first the scales of all blocks, byte by byte, then the whole numbers.
#include "chapters/04_zero/zero_plus_plus/block_quantization.hpp"

#include "chapters/03_data_parallel/compression/message_words.hpp"
#include "chapters/04_zero/zero_plus_plus/packed_integers.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::zero {

// TODO 1 (about 3 lines): the bytes of all scales and of all whole numbers. Two numbers of 4 bits
// share a byte; the last may have one for itself.
std::size_t quantized_bytes([[maybe_unused]] const BlockFormat& format,
                            [[maybe_unused]] std::size_t count, [[maybe_unused]] DType dtype) {
  throw NotWritten("04.10 block_quantization: quantized_bytes");
}

// TODO 2 (about 18 lines): for each block, find its scale, then the nearest multiple of it for each
// number. dispatch_float(dtype, []<class T>() { ... }) makes float or double of the dtype.
// - What is the scale of a block of zeros? Of one that holds NaN?
// - The message has bytes that no number needs: they are 0.
void quantize([[maybe_unused]] const BlockFormat& format, [[maybe_unused]] const Tensor& numbers,
              [[maybe_unused]] const Tensor& message) {
  throw NotWritten("04.10 block_quantization: quantize");
}

// TODO 3 (about 8 lines): the way back.
void dequantize([[maybe_unused]] const BlockFormat& format, [[maybe_unused]] const Tensor& message,
                [[maybe_unused]] const Tensor& into) {
  throw NotWritten("04.10 block_quantization: dequantize");
}

// TODO 4 (about 5 lines): the same, added to what is there.
void add_dequantized([[maybe_unused]] const BlockFormat& format,
                     [[maybe_unused]] const Tensor& message, [[maybe_unused]] const Tensor& into) {
  throw NotWritten("04.10 block_quantization: add_dequantized");
}

}  // namespace ultra::zero
