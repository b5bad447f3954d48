#pragma once
/// @file
/// Compressor: gradients in fewer bytes than they have.
///
/// A message is words of i32, which any collective carries; floats and packed bits are in them byte
/// for byte. Its size follows from the number of elements alone, so all replicas know it.
///
/// | compressor | words for n elements of f32 | of f64 | less than f32, f64 |
/// |---|---|---|---|
/// | top_k_compressor(F) | 2 k, k = ceil(F n) | 3 k | 1/(2F), 2/(3F) |
/// | int8_compressor() | ceil(n/4) + ceil(n/256) | ceil(n/4) + 2 ceil(n/256) | 3.9, 7.8 |
/// | one_bit_compressor() | ceil(n/32) + ceil(n/128) | ceil(n/32) + 2 ceil(n/128) | 25.6, 42.7 |
///
/// **NaN and infinity are never hidden**: where a gradient holds one, what is decompressed holds
/// one, too, on every replica; so the norm of the gradients is not finite and training stops.

#include <cstddef>
#include <memory>

#include "common/tensor/tensor.hpp"

namespace ultra::data_parallel {

/// @brief Whether what compression leaves out is sent later.
enum class ErrorFeedback {
  kOff,  ///< it is lost
  kOn,   ///< it is kept, and added to the next step's gradient
};

/// @brief C(x): a lossy way to write an array down. Without state: one object serves all buckets.
class Compressor {
 public:
  virtual ~Compressor() = default;

  /// @brief Words of the message for `count` elements of a floating dtype.
  [[nodiscard]] virtual std::size_t message_words(std::size_t count, DType dtype) const = 0;

  /// @brief Writes C(gradient) down.
  /// @param gradient  [n] of f32 or f64, contiguous, read.
  /// @param message   [message_words(n, dtype)] of i32, contiguous, written.
  virtual void compress(const Tensor& gradient, const Tensor& message) const = 0;

  /// @brief into += factor C(x), element by element in one order: the same bits on every replica.
  /// @param message  [message_words(n, dtype)] as compress() wrote it.
  /// @param factor   1 or -1.
  /// @param into     [n] of the gradient's dtype, contiguous.
  virtual void add_decompressed(const Tensor& message, double factor, const Tensor& into) const = 0;
};

/// @brief The ceil(fraction * n) entries of largest magnitude, with their positions; the rest is 0.
///
/// ||x - C(x)||^2 <= (1 - k/n) ||x||^2: a contraction, which error feedback needs. Cost: O(n).
/// NaN counts as larger than every number, so it is sent.
/// @param fraction  in (0, 1].
/// @throws ConfigError for another fraction.
/// Source: Stich, Cordonnier and Jaggi 2018, "Sparsified SGD with memory", arXiv 1809.07599.
[[nodiscard]] std::shared_ptr<const Compressor> top_k_compressor(double fraction);

/// Elements that share a scale in int8_compressor().
inline constexpr std::size_t kInt8Block = 256;

/// @brief Whole numbers from -127 to 127, times one scale per block of kInt8Block elements.
///
/// scale = max|x| / 127 of the block; x becomes the nearest multiple, so the error is at most half
/// the scale. A block that holds NaN or infinity is NaN as a whole.
/// Deviation: the scale is cut to 7 bits less than its type has. Then each multiple of it is a
/// number of the type, and x - C(x) is exact (Sterbenz 1974): what is sent and what is kept add up
/// to x without an error.
/// Source: Dettmers 2016, "8-bit approximations for parallelism in deep learning", arXiv
/// 1511.04561.
[[nodiscard]] std::shared_ptr<const Compressor> int8_compressor();

/// Elements that share a magnitude in one_bit_compressor(): about a row of a small weight. Rows
/// differ much in size, and a magnitude for all of them is too large for most entries.
inline constexpr std::size_t kOneBitBlock = 128;

/// @brief The signs, times the mean magnitude of each block of kOneBitBlock elements.
///
/// ||x - C(x)||^2 = ||x||^2 - ||x||_1^2 / n in a block of n: a contraction. Zeros count as positive. A
/// block that holds NaN or infinity holds nothing else afterwards.
/// Source: Seide et al. 2014, "1-bit stochastic gradient descent", Interspeech; the scale is that
/// of Karimireddy et al. 2019, "Error feedback fixes signSGD", arXiv 1901.09847, algorithm 1.
[[nodiscard]] std::shared_ptr<const Compressor> one_bit_compressor();

}  // namespace ultra::data_parallel
