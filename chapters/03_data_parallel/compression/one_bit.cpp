// Message of one bit: one magnitude per block, then the signs, 32 to a word: 1 for minus.

#include <algorithm>
#include <bit>
#include <cmath>

#include "chapters/03_data_parallel/compression/compressor.hpp"
#include "chapters/03_data_parallel/compression/message_words.hpp"
#include "common/base/numeric.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::data_parallel {
namespace {

constexpr std::size_t kSignsPerWord = 32;

/// In f64, so that a block of f32 has hardly a rounding error. NaN or infinite where the block is.
template <class T>
T mean_magnitude(std::span<const T> block) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < block.size(); ++i) {
    sum += static_cast<double>(std::abs(block[i]));
  }
  return static_cast<T>(sum / static_cast<double>(block.size()));
}

template <class T>
std::int32_t signs_of(std::span<const T> entries) {
  std::uint32_t signs = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    signs |= static_cast<std::uint32_t>(entries[i] < T(0)) << i;
  }
  return std::bit_cast<std::int32_t>(signs);
}

class OneBit final : public Compressor {
 public:
  [[nodiscard]] std::size_t message_words(std::size_t count, DType dtype) const override {
    return ceil_div(count, kOneBitBlock) * words_of(dtype) + ceil_div(count, kSignsPerWord);
  }

  void compress(const Tensor& gradient, const Tensor& message) const override {
    dispatch_float(gradient.dtype(), [&]<class T>() {
      const HostView<const T> view(gradient);
      const std::span<const T> entries = view.span();
      const HostView<std::int32_t> words_of_message(message, HostAccess::kWrite);
      std::int32_t* at = words_of_message.data();
      for (std::size_t begin = 0; begin < entries.size(); begin += kOneBitBlock) {
        const T magnitude =
            mean_magnitude(entries.subspan(begin, std::min(kOneBitBlock, entries.size() - begin)));
        at = put(at, std::span<const T>(&magnitude, 1));
      }
      for (std::size_t begin = 0; begin < entries.size(); begin += kSignsPerWord) {
        *at++ = signs_of(entries.subspan(begin, std::min(kSignsPerWord, entries.size() - begin)));
      }
    });
  }

  void add_decompressed(const Tensor& message, double factor, const Tensor& into) const override {
    dispatch_float(into.dtype(), [&]<class T>() {
      const HostView<T> view(into, HostAccess::kReadWrite);
      const std::span<T> sums = view.span();
      const HostView<const std::int32_t> words_of_message(message);
      const std::int32_t* magnitudes = words_of_message.data();
      const std::int32_t* signs =
          magnitudes + ceil_div(sums.size(), kOneBitBlock) * words_of(dtype_of<T>());
      for (std::size_t begin = 0; begin < sums.size(); begin += kSignsPerWord) {
        const T plus = static_cast<T>(factor) * number_at<T>(magnitudes, begin / kOneBitBlock);
        const T minus = -plus;
        const auto word = std::bit_cast<std::uint32_t>(signs[begin / kSignsPerWord]);
        const std::size_t size = std::min(kSignsPerWord, sums.size() - begin);
        for (std::size_t i = 0; i < size; ++i) {
          sums[begin + i] += (word >> i & 1U) != 0 ? minus : plus;
        }
      }
    });
  }
};

static_assert(kOneBitBlock % kSignsPerWord == 0, "a word's signs share one magnitude");

}  // namespace

std::shared_ptr<const Compressor> one_bit_compressor() { return std::make_shared<const OneBit>(); }

}  // namespace ultra::data_parallel
