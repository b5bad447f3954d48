// Exercise 04.10: block quantisation.
//
// A message is the scales of all blocks, then the whole numbers of all elements. These are numbered
// through the whole array, not block by block: a block of odd size needs no care.
#include "chapters/04_zero/zero_plus_plus/block_quantization.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "chapters/03_data_parallel/compression/message_words.hpp"
#include "chapters/04_zero/zero_plus_plus/packed_integers.hpp"
#include "common/base/numeric.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::zero {
namespace {

using data_parallel::number_at;
using data_parallel::put;
using data_parallel::words_of;

constexpr std::size_t kBitsOfByte = 8;

std::size_t bytes_of_integers(const BlockFormat& format, std::size_t count) {
  const auto bits = static_cast<std::size_t>(format.bits);
  return round_up(ceil_div(count * bits, kBitsOfByte), sizeof(std::int32_t));
}

// [region scale_of]
/// NaN for a block that is not finite: 0 * NaN is NaN. Never 0 nor a denormal, by which nothing could
/// be divided: a block of zeros has some scale, and whole numbers of 0.
template <class T>
T scale_of(std::span<const T> block, int largest_integer) {
  T largest = 0;
  for (const T x : block) {
    if (!std::isfinite(x)) return std::numeric_limits<T>::quiet_NaN();
    largest = std::max(largest, std::abs(x));
  }
  return std::max(largest / static_cast<T>(largest_integer), std::numeric_limits<T>::min());
}
// [/region]

/// Calls visit(block number, elements of the block).
template <class Visit>
void for_blocks(std::size_t count, std::size_t block, const Visit& visit) {
  for (std::size_t begin = 0; begin < count; begin += block) {
    visit(begin / block, Range{begin, std::min(begin + block, count)});
  }
}

/// Calls visit(element, its number) for each number of a message.
template <class T, class Visit>
void for_numbers(const BlockFormat& format, const Tensor& message, std::size_t count,
                 const Visit& visit) {
  const HostView<const std::int32_t> words(message);
  const std::int32_t* scales = words.data();
  const std::size_t blocks = ceil_div(count, format.block);
  const PackedIntegers integers(format.bits, scales + blocks * words_of(dtype_of<T>()));
  for_blocks(count, format.block, [&](std::size_t b, const Range& block) {
    const T scale = number_at<T>(scales, b);
    for (std::size_t i = block.begin; i < block.end; ++i) {
      visit(i, static_cast<T>(integers.get(i)) * scale);
    }
  });
}

}  // namespace

// [region quantized_bytes]
std::size_t quantized_bytes(const BlockFormat& format, std::size_t count, DType dtype) {
  return ceil_div(count, format.block) * size_of(dtype) + bytes_of_integers(format, count);
}
// [/region]

// [region quantize]
void quantize(const BlockFormat& format, const Tensor& numbers, const Tensor& message) {
  dispatch_float(numbers.dtype(), [&]<class T>() {
    const HostView<const T> view(numbers);
    const std::span<const T> all = view.span();
    const HostView<std::int32_t> words(message, HostAccess::kWrite);
    std::ranges::fill(words, 0);
    std::int32_t* scales = words.data();
    const std::size_t blocks = ceil_div(all.size(), format.block);
    const PackedIntegers integers(format.bits, scales + blocks * words_of(dtype_of<T>()));
    for_blocks(all.size(), format.block, [&](std::size_t, const Range& block) {
      const T scale = scale_of(all.subspan(block.begin, block.size()), largest_of(format.bits));
      scales = put(scales, std::span<const T>(&scale, 1));
      if (std::isnan(scale)) return;
      for (std::size_t i = block.begin; i < block.end; ++i) {
        integers.set(i, static_cast<int>(std::nearbyint(all[i] / scale)));
      }
    });
  });
}
// [/region]

// [region dequantize]
void dequantize(const BlockFormat& format, const Tensor& message, const Tensor& into) {
  dispatch_float(into.dtype(), [&]<class T>() {
    const HostView<T> numbers(into, HostAccess::kWrite);
    for_numbers<T>(format, message, numbers.size(),
                   [&](std::size_t i, T number) { numbers[i] = number; });
  });
}

void add_dequantized(const BlockFormat& format, const Tensor& message, const Tensor& into) {
  dispatch_float(into.dtype(), [&]<class T>() {
    const HostView<T> sums(into, HostAccess::kReadWrite);
    for_numbers<T>(format, message, sums.size(),
                   [&](std::size_t i, T number) { sums[i] += number; });
  });
}
// [/region]

}  // namespace ultra::zero
