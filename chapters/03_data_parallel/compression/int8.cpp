// Message of int8: one scale per block, then the whole numbers, four to a word.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "chapters/03_data_parallel/compression/compressor.hpp"
#include "chapters/03_data_parallel/compression/message_words.hpp"
#include "common/base/numeric.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::data_parallel {
namespace {

constexpr std::size_t kPerWord = sizeof(std::int32_t);
constexpr int kLargest = 127;      // -128 stays unused: both signs reach as far
constexpr int kBitsOfLargest = 7;  // of a factor up to 127

/// `scale` without its last 7 bits.
template <class T>
T round_scale(T scale) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kLow = (Bits(1) << kBitsOfLargest) - 1;
  return std::bit_cast<T>(std::bit_cast<Bits>(scale) & ~kLow);
}

/// NaN for a block that is not finite: 0 * NaN is NaN, so the block decompresses to nothing else.
template <class T>
T scale_of(std::span<const T> block) {
  T largest = 0;
  bool finite = true;
  for (const T x : block) {
    largest = std::max(largest, std::abs(x));  // keeps `largest` where x is NaN
    finite = finite && std::isfinite(x);
  }
  if (!finite) return std::numeric_limits<T>::quiet_NaN();
  return round_scale(largest / static_cast<T>(kLargest));
}

using Quantized = std::int8_t[kInt8Block];

/// Ties to even. So a number that becomes +-1 is more than half the scale, which makes x - q scale
/// exact for it as for the others.
template <class T>
void quantize(std::span<const T> block, T scale, Quantized& quantized) {
  constexpr T kEnd = kLargest;
  const bool usable = std::isfinite(scale) && scale > 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const T q = usable ? std::nearbyint(block[i] / scale) : T(0);
    quantized[i] = static_cast<std::int8_t>(std::clamp(q, -kEnd, kEnd));
  }
}

/// Block `index` of `elements`; the last may be shorter.
template <class T>
std::span<T> block_at(std::span<T> elements, std::size_t index) {
  const std::size_t begin = index * kInt8Block;
  return elements.subspan(begin, std::min(kInt8Block, elements.size() - begin));
}

class Int8 final : public Compressor {
 public:
  [[nodiscard]] std::size_t message_words(std::size_t count, DType dtype) const override {
    return ceil_div(count, kInt8Block) * words_of(dtype) + ceil_div(count, kPerWord);
  }

  void compress(const Tensor& gradient, const Tensor& message) const override {
    dispatch_float(gradient.dtype(), [&]<class T>() {
      const HostView<const T> view(gradient);
      const std::span<const T> entries = view.span();
      const HostView<std::int32_t> words_of_message(message, HostAccess::kWrite);
      const std::size_t blocks = ceil_div(entries.size(), kInt8Block);
      std::int32_t* scales = words_of_message.data();
      std::int32_t* words = scales + blocks * words_of(dtype_of<T>());
      for (std::size_t b = 0; b < blocks; ++b) {
        const std::span<const T> block = block_at(entries, b);
        const T scale = scale_of(block);
        scales = put(scales, std::span<const T>(&scale, 1));
        Quantized quantized = {};  // zeros behind the end of a short block
        quantize(block, scale, quantized);
        const std::size_t block_words = ceil_div(block.size(), kPerWord);
        std::memcpy(words, quantized, block_words * kPerWord);
        words += block_words;
      }
    });
  }

  void add_decompressed(const Tensor& message, double factor, const Tensor& into) const override {
    dispatch_float(into.dtype(), [&]<class T>() {
      const HostView<T> view(into, HostAccess::kReadWrite);
      const std::span<T> sums = view.span();
      const HostView<const std::int32_t> words_of_message(message);
      const std::size_t blocks = ceil_div(sums.size(), kInt8Block);
      const std::int32_t* scales = words_of_message.data();
      const std::int32_t* words = scales + blocks * words_of(dtype_of<T>());
      for (std::size_t b = 0; b < blocks; ++b) {
        const std::span<T> block = block_at(sums, b);
        const T scale = static_cast<T>(factor) * number_at<T>(scales, b);
        Quantized quantized;
        const std::size_t block_words = ceil_div(block.size(), kPerWord);
        std::memcpy(quantized, words, block_words * kPerWord);
        words += block_words;
        // The product is exact, so fusing it with the sum changes nothing.
        for (std::size_t i = 0; i < block.size(); ++i) {
          block[i] += static_cast<T>(quantized[i]) * scale;
        }
      }
    });
  }
};

}  // namespace

std::shared_ptr<const Compressor> int8_compressor() { return std::make_shared<const Int8>(); }

}  // namespace ultra::data_parallel
