// Exercise 04.10: block quantisation.
//
// Goal:        send numbers in 8 or 4 bits, with one scale for each block of them.
// Length:      about 50 lines
// Difficulty:  medium
// Check:       ./workbook check 04.10
// Hints:       ./workbook hint 04.10
// Targets:     every error is at most half the scale of its block, 0 stays 0;
//              an outlier, NaN or infinity spoils its own block only;
//              ceil(n/block) scales and ceil(n bits/8) bytes, filled up to a multiple of 4
//
// chapters/04_zero/zero_plus_plus/block_quantization.hpp declares the functions. A message is an
// array of i32: chapter 03's message_words.hpp copies floats into it and out of it, byte by byte.
// How scales and whole numbers stand in it is up to you; a message means something to your own
// functions only.
#include "chapters/04_zero/zero_plus_plus/block_quantization.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// TODO 1 (about 3 lines): the bytes of all scales and of all whole numbers. Two numbers of 4 bits
// share a byte; the last may have one for itself.
std::size_t quantized_bytes([[maybe_unused]] const BlockFormat& format,
                            [[maybe_unused]] std::size_t count, [[maybe_unused]] DType dtype) {
  throw NotWritten("04.10 block_quantization: quantized_bytes");
}

// TODO 2 (about 25 lines): for each block, find its scale, then the nearest multiple of it for each
// number. dispatch_float(dtype, []<class T>() { ... }) makes float or double of the dtype.
// - What is the scale of a block of zeros? Of one that holds NaN?
// - The message has bytes that no number needs: they are 0.
void quantize([[maybe_unused]] const BlockFormat& format, [[maybe_unused]] const Tensor& numbers,
              [[maybe_unused]] const Tensor& message) {
  throw NotWritten("04.10 block_quantization: quantize");
}

// TODO 3 (about 15 lines): the way back. Four bits have no type of their own: the sign is yours.
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
