// What each compressor promises: the size of its message, how far C(x) is from x, that what is sent
// and what is left add up to x, and that nothing broken is hidden.

#include "chapters/03_data_parallel/compression/compressor.hpp"

#include "chapters/03_data_parallel/top_k_feedback.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using Pointer = std::shared_ptr<const Compressor>;

struct Named {
  std::string name;
  Pointer compressor;
};

std::vector<Named> all_compressors() {
  return {{"topk:0.01", top_k_compressor(0.01)},
          {"topk:0.3", top_k_compressor(0.3)},
          {"topk:1", top_k_compressor(1)},
          {"int8", int8_compressor()},
          {"onebit", one_bit_compressor()}};
}

/// Around the ends of words and blocks.
constexpr std::size_t kCounts[] = {0,   1,   3,   4,   5,    31,   32,   33,   127,  128,
                                   129, 255, 256, 257, 1000, 2047, 2048, 2049, 2081, 5000};

Tensor message_for(const Compressor& compressor, const Tensor& x) {
  const Tensor message =
      Tensor::empty(x.device(), {compressor.message_words(x.numel(), x.dtype())}, DType::kI32);
  message.fill(-1);  // what is not written shows
  return message;
}

/// C(x)
Tensor round_trip(const Compressor& compressor, const Tensor& x) {
  const Tensor message = message_for(compressor, x);
  compressor.compress(x, message);
  const Tensor sent = Tensor::zeros(x.device(), x.shape(), x.dtype());
  compressor.add_decompressed(message, 1, sent);
  return sent;
}

/// What is sent and what is left add up to x. In f64, where the sum of two numbers of f32 of these sizes is
/// exact; for f64 numbers, the sum is x, a number of the type, and so no rounding takes place either.
void expect_adds_up(const Compressor& compressor, const Tensor& x) {
  const Tensor residual = Tensor::zeros(x.device(), x.shape(), x.dtype());
  const Tensor message = message_for(compressor, x);
  compress_with_feedback(compressor, x, residual, message);
  const Tensor sent = Tensor::zeros(x.device(), x.shape(), x.dtype());
  compressor.add_decompressed(message, 1, sent);
  std::vector<double> sums = sent.to_vector();
  const std::vector<double> left = residual.to_vector();
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += left[i];
  EXPECT_EQ(sums, x.to_vector());
}

double squares_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

double distance_squared(const Tensor& a, const Tensor& b) {
  std::vector<double> difference = a.to_vector();
  const std::vector<double> other = b.to_vector();
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= other[i];
  return squares_of(difference);
}

class Compressors : public test::RandomTest {
 protected:
  /// Calls `check` for all counts and both dtypes, on numbers of many sizes.
  template <class Check>
  void for_arrays(const Check& check) {
    for (const std::size_t count : kCounts) {
      for (const DType dtype : test::kFloatDTypes) {
        SCOPED_TRACE(fmt::format("{} elements of {}", count, to_string(dtype)));
        const Tensor x = random.tensor(device, {count}, dtype);
        dispatch_float(dtype, [&]<class T>() {
          for (T& element : x.span<T>()) {
            element *= std::ldexp(T(1), static_cast<int>(random.between(0, 30)) - 20);
          }
        });
        check(x);
        if (HasFailure()) return;
      }
    }
  }

  /// On a grid, such that the mean magnitude of each block of one bit is a number of the type: what
  /// count leaves behind whole blocks must be a power of two.
  Tensor on_grid(std::size_t count, DType dtype) {
    std::vector<double> values;
    for (std::size_t i = 0; i < count; ++i) {
      values.push_back((static_cast<double>(random.between(0, 128)) - 64) / 16);
    }
    return Tensor::from<double>(device, {count}, values).to(dtype);
  }
};

TEST_F(Compressors, SizesOfMessagesAreThoseOfTheTable) {
  for (const std::size_t n : kCounts) {
    const std::size_t k = (n + 3) / 4;
    EXPECT_EQ(top_k_compressor(0.25)->message_words(n, DType::kF32), 2 * k);
    EXPECT_EQ(top_k_compressor(0.25)->message_words(n, DType::kF64), 3 * k);
    const std::size_t int8 = (n + 3) / 4;
    const std::size_t scales = (n + 255) / 256;
    EXPECT_EQ(int8_compressor()->message_words(n, DType::kF32), int8 + scales);
    EXPECT_EQ(int8_compressor()->message_words(n, DType::kF64), int8 + 2 * scales);
    const std::size_t signs = (n + 31) / 32;
    const std::size_t magnitudes = (n + 127) / 128;
    EXPECT_EQ(one_bit_compressor()->message_words(n, DType::kF32), signs + magnitudes);
    EXPECT_EQ(one_bit_compressor()->message_words(n, DType::kF64), signs + 2 * magnitudes);
  }
  const auto less_than = [](const Pointer& compressor, DType dtype) {
    const std::size_t n = 1 << 20;
    return static_cast<double>(n * size_of(dtype)) /
           static_cast<double>(4 * compressor->message_words(n, dtype));
  };
  EXPECT_NEAR(less_than(int8_compressor(), DType::kF32), 3.94, 0.005);
  EXPECT_NEAR(less_than(int8_compressor(), DType::kF64), 7.76, 0.005);
  EXPECT_NEAR(less_than(one_bit_compressor(), DType::kF32), 25.6, 0.05);
  EXPECT_NEAR(less_than(one_bit_compressor(), DType::kF64), 42.67, 0.05);
  EXPECT_NEAR(less_than(top_k_compressor(0.01), DType::kF32), 50, 0.05);
}

TEST_F(Compressors, EveryWordOfAMessageIsWritten) {
  for_arrays([](const Tensor& x) {
    for (const auto& [name, compressor] : all_compressors()) {
      const Tensor first = message_for(*compressor, x);
      const Tensor second = message_for(*compressor, x);
      second.fill(0x5A5A5A5A);
      compressor->compress(x, first);
      compressor->compress(x, second);
      EXPECT_TRUE(test::all_equal(first, second)) << name;
    }
  });
}

TEST_F(Compressors, TopKSendsTheLargestAsTheyAre) {
  for_arrays([](const Tensor& x) {
    const Tensor sent = round_trip(*top_k_compressor(0.3), x);
    const std::vector<double> entries = x.to_vector();
    const std::vector<double> found = sent.to_vector();
    double least_sent = std::numeric_limits<double>::infinity();
    double largest_left = 0;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (found[i] == 0) {
        largest_left = std::max(largest_left, std::abs(entries[i]));
      } else {
        EXPECT_EQ(found[i], entries[i]);
        least_sent = std::min(least_sent, std::abs(found[i]));
        ++kept;
      }
    }
    EXPECT_EQ(kept, kept_entries(0.3, entries.size()));
    EXPECT_GE(least_sent, largest_left);
    EXPECT_TRUE(test::all_equal(round_trip(*top_k_compressor(1), x), x)) << "all of them";
  });
}

TEST_F(Compressors, Int8IsWithinHalfAScale) {
  for_arrays([](const Tensor& x) {
    const std::vector<double> sent = round_trip(*int8_compressor(), x).to_vector();
    const std::vector<double> values = x.to_vector();
    for (std::size_t begin = 0; begin < values.size(); begin += kInt8Block) {
      const std::size_t end = std::min(values.size(), begin + kInt8Block);
      const double largest =
          test::largest_magnitude({values.begin() + static_cast<std::ptrdiff_t>(begin),
                                   values.begin() + static_cast<std::ptrdiff_t>(end)});
      // The scale is at most largest / 127; the division that finds the multiple rounds in its 24th
      // bit.
      const double bound = 0.5 * largest / 127 * (1 + 0x1p-15);
      for (std::size_t i = begin; i < end; ++i) {
        EXPECT_LE(std::abs(values[i] - sent[i]), bound) << i;
      }
    }
  });
}

TEST_F(Compressors, OneBitSendsTheSignsTimesTheMeanMagnitude) {
  const std::vector<double> values = {1, -2, 0, 4, -0.5, -0.5};
  for (const DType dtype : test::kFloatDTypes) {
    const Tensor x = Tensor::from<double>(device, {6}, values).to(dtype);
    const double s = dtype == DType::kF32 ? static_cast<double>(8.0F / 6.0F) : 8.0 / 6.0;
    EXPECT_TRUE(test::all_equal(round_trip(*one_bit_compressor(), x),
                                std::vector<double>{s, -s, s, s, -s, -s}));
  }
  // Two blocks with magnitudes of their own.
  const Tensor x = Tensor::empty(device, {kOneBitBlock + 3}, DType::kF32);
  x.fill(-2);
  x.slice(0, {kOneBitBlock, kOneBitBlock + 3}).fill(5);
  EXPECT_TRUE(test::all_equal(round_trip(*one_bit_compressor(), x), x));
}

TEST_F(Compressors, OneBitIsTheContractionThatItsHeaderSays) {
  for_arrays([](const Tensor& x) {
    const std::vector<double> values = x.to_vector();
    double expected = 0;
    for (std::size_t begin = 0; begin < values.size(); begin += kOneBitBlock) {
      const std::size_t end = std::min(values.size(), begin + kOneBitBlock);
      double sum = 0;
      for (std::size_t i = begin; i < end; ++i) {
        sum += std::abs(values[i]);
        expected += values[i] * values[i];
      }
      expected -= sum * sum / static_cast<double>(end - begin);
    }
    const double squares = squares_of(values);
    EXPECT_NEAR(
        distance_squared(x, round_trip(*one_bit_compressor(), x)), expected,
        test::rounding_bound(x.dtype(), 4.0, squares) +
            test::rounding_bound(DType::kF64, 4.0 * test::count_of(values.size()), squares));
  });
}

// x - C(x) is exact for top-k, whose C(x) is x or 0, and for int8: C(x) is 0 or a number from x/2 to
// 2x (Sterbenz 1974), and a number of the type because the scale has 7 bits less. So whatever x is,
// what is sent and what is left add up to it.
TEST_F(Compressors, SentAndResidualAddUpExactly) {
  for_arrays([](const Tensor& x) {
    for (const auto& [name, compressor] : all_compressors()) {
      SCOPED_TRACE(name);
      if (name != "onebit") expect_adds_up(*compressor, x);
    }
  });
}

// The mean magnitude of a block has nothing to do with a single element: x - C(x) rounds in general. On
// a grid of sixteenths a mean over 2^j elements is a multiple of 2^-4-j, and all is exact.
TEST_F(Compressors, SentAndResidualAddUpExactlyForOneBitOnAGrid) {
  for (const std::size_t count : {1U, 2U, 32U, 64U, 1024U, 2048U, 2048U + 16U, 4096U + 512U}) {
    for (const DType dtype : test::kFloatDTypes) {
      expect_adds_up(*one_bit_compressor(), on_grid(count, dtype));
    }
  }
}

TEST_F(Compressors, ZerosStayZeros) {
  for (const auto& [name, compressor] : all_compressors()) {
    const Tensor x = Tensor::zeros(device, {777}, DType::kF32);
    EXPECT_TRUE(test::all_equal(round_trip(*compressor, x), x)) << name;
  }
}

TEST_F(Compressors, TheSmallestAndTheLargestNumbersSurvive) {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> values = {Limits::denorm_min(), -Limits::denorm_min(), Limits::min(),
                                     300 * Limits::denorm_min()};
  const Tensor tiny = Tensor::from<float>(device, {4}, values);
  const Tensor huge = Tensor::empty(device, {4}, DType::kF32);
  huge.fill(static_cast<double>(Limits::max()));
  for (const auto& [name, compressor] : all_compressors()) {
    for (const Tensor& x : {tiny, huge}) {
      SCOPED_TRACE(name);
      expect_adds_up(*compressor, x);
    }
  }
}

TEST_F(Compressors, WhatIsBrokenIsNotHidden) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double broken : {std::nan(""), inf, -inf}) {
    for (const std::size_t count : {1U, 5U, 300U, 2100U}) {
      for (const DType dtype : test::kFloatDTypes) {
        const Tensor x = random.tensor(device, {count}, dtype);
        const std::size_t where = random.between(0, count - 1);
        x.slice(0, {where, where + 1}).fill(broken);
        for (const auto& [name, compressor] : all_compressors()) {
          const double at = round_trip(*compressor, x).to_vector()[where];
          EXPECT_FALSE(std::isfinite(at)) << name << ": " << broken << " became " << at;
        }
      }
    }
  }
}

TEST_F(Compressors, TopKRefusesWhatIsNoFraction) {
  for (const double fraction : {0.0, -0.1, 1.0001, std::nan("")}) {
    EXPECT_THAT(
        test::message_of<ConfigError>([&] { static_cast<void>(top_k_compressor(fraction)); }),
        ::testing::HasSubstr(fmt::format("found {}", fraction)));
  }
}

}  // namespace
}  // namespace ultra::data_parallel
