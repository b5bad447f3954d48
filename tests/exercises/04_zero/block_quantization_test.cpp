// Contract of exercise 04.10: what dequantised numbers may differ from the numbers, block by block,
// in how many bytes. The blocks, their scales and the bounds are computed here from the numbers
// alone.
#include "chapters/04_zero/zero_plus_plus/block_quantization.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using Values = std::vector<double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr QuantizedBits kAllBits[] = {QuantizedBits::kFour, QuantizedBits::kEight};

/// Numbers and how they are quantised.
struct Case {
  BlockFormat format;
  DType dtype = DType::kF32;

  [[nodiscard]] std::string str(std::size_t count) const {
    return fmt::format("{} numbers of {} in blocks of {}, {} bits", count, to_string(dtype),
                       format.block, static_cast<int>(format.bits));
  }
};

/// How far dequantised numbers may be off: half the scale of their block, and roundings of the type,
/// u each. The quotient x/scale has one, the product another, and both are at most q scale (1 + u); the
/// scale has one. These are (2 q + 1/2) u scale; the bound has 4 q u scale, for its own roundings.
Values half_scales(const Case& c, const Values& values) {
  const double integers = c.format.bits == QuantizedBits::kFour ? 7 : 127;
  Values bounds;
  for (std::size_t begin = 0; begin < values.size(); begin += c.format.block) {
    const std::size_t end = std::min(begin + c.format.block, values.size());
    double largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(values[i]));
    bounds.resize(end, largest / integers / 2 + rounding_bound(c.dtype, 2, largest));
  }
  return bounds;
}

constexpr const char* kScale =
    "Hint: the scale of a block is its largest magnitude over 127 (8 bits) or 7 (4 bits), and each "
    "number becomes the nearest multiple of it: the error is at most half the scale.";
constexpr const char* kZeros =
    "Hint: 0 is 0 times any scale. A block of zeros has no largest magnitude to divide by: give it "
    "some scale that is not 0, or do not divide.";

class BlockQuantizationTest : public ultra::test::RandomTest {
 protected:
  [[nodiscard]] Tensor tensor(const Values& values, DType dtype) const {
    return Tensor::from<double>(device, {values.size()}, values).to(dtype);
  }

  /// The message, in memory full of something else.
  [[nodiscard]] Tensor message_of(const Case& c, const Values& values, double garbage = -1) const {
    const std::size_t bytes = quantized_bytes(c.format, values.size(), c.dtype);
    Tensor message = ultra::test::filled(device, {bytes / 4}, DType::kI32, garbage);
    quantize(c.format, tensor(values, c.dtype), message);
    return message;
  }

  [[nodiscard]] Tensor there_and_back(const Case& c, const Values& values) const {
    Tensor into = ultra::test::filled(device, {values.size()}, c.dtype, kNaN);
    dequantize(c.format, message_of(c, values), into);
    return into;
  }

  /// Calls fn with both widths, both types, and blocks that do and do not divide the count.
  void for_cases(const std::function<void(const Case&, std::size_t count)>& fn) {
    for (const QuantizedBits bits : kAllBits) {
      for (const DType dtype : ultra::test::kFloatDTypes) {
        for (const std::size_t block : {std::size_t{1}, std::size_t{7}, std::size_t{256}}) {
          for (const std::size_t count :
               {std::size_t{0}, std::size_t{1}, 3 * block, 2 * block + 1, random.between(1, 700)}) {
            if (HasFailure()) return;
            const Case c{.format = {.bits = bits, .block = block}, .dtype = dtype};
            SCOPED_TRACE(c.str(count));
            fn(c, count);
          }
        }
      }
    }
  }

  /// Normal numbers as the type of the case has them.
  Values draw(std::size_t count, DType dtype, double size = 1.0) {
    return random.tensor(device, {count}, dtype, size).to_vector();
  }
};

TEST_F(BlockQuantizationTest, AMessageHasTheBytesOfTheClosedForm) {
  struct Row {
    Case c;
    std::size_t count;
    std::size_t scales, numbers;  ///< bytes
  };
  using enum QuantizedBits;
  using enum DType;
  for (const auto& [c, count, scales, numbers] :
       {Row{{{kEight, 256}, kF32}, 0, 0, 0}, Row{{{kEight, 256}, kF32}, 1, 4, 4},
        Row{{{kEight, 256}, kF32}, 257, 8, 260}, Row{{{kEight, 256}, kF64}, 1024, 32, 1024},
        Row{{{kFour, 256}, kF32}, 8, 4, 4}, Row{{{kFour, 256}, kF32}, 9, 4, 8},
        Row{{{kFour, 256}, kF64}, 1025, 40, 516}, Row{{{kEight, 7}, kF32}, 15, 12, 16}}) {
    EXPECT_EQ(quantized_bytes(c.format, count, c.dtype), scales + numbers)
        << c.str(count)
        << "\nHint: ceil(n / block) scales of the numbers' type, ceil(n bits / 8) bytes, filled up "
           "to a multiple of 4.";
  }
}

TEST_F(BlockQuantizationTest, EveryErrorIsAtMostHalfTheScaleOfItsBlock) {
  for_cases([&](const Case& c, std::size_t count) {
    Values values = draw(count, c.dtype, random.pick({1e-20, 1.0, 1e20}));
    EXPECT_TRUE(all_near(there_and_back(c, values), values, half_scales(c, values))) << kScale;
    for (std::size_t i = 0; i < count; ++i) {
      if (i / c.format.block % 2 == 1) values[i] *= 0x1p20;
    }
    EXPECT_TRUE(all_near(there_and_back(c, values), values, half_scales(c, values)))
        << "Hint: each block has a scale of its own: the largest number of another block must not "
           "matter.";
    EXPECT_EQ(message_of(c, values, 12345).to_vector(), message_of(c, values, -1).to_vector())
        << "Hint: every byte of the message is written, also those that no number needs: messages "
           "of the same numbers are the same.";
    EXPECT_TRUE(all_near(there_and_back(c, Values(count, 0.0)), Values(count, 0.0), 0.0)) << kZeros;
  });
}

/// Multiples of a power of two, the largest of which is 127 or 7 of them, come back as they were.
TEST_F(BlockQuantizationTest, MultiplesOfTheScaleAreExact) {
  for_cases([&](const Case& c, std::size_t count) {
    const int integers = largest_of(c.format.bits);
    Values values(count);
    for (std::size_t i = 0; i < count; ++i) {
      const bool first = i % c.format.block == 0;
      const auto q = first ? integers : static_cast<int>(i) % (2 * integers + 1) - integers;
      values[i] = (i / c.format.block % 2 == 0 ? 0.125 : -0.125) * q;
    }
    EXPECT_TRUE(all_near(there_and_back(c, values), values, 0.0))
        << (c.format.bits == QuantizedBits::kFour ? "Hint: two numbers of 4 bits share a byte; "
                                                    "reading one, its highest bit is its sign."
                                                  : kScale);
  });
}

/// Numbers of which a scale would be a denormal, or 0, become small numbers: no NaN, no infinity.
TEST_F(BlockQuantizationTest, TheSmallestNumbersStayNumbers) {
  const double denormal = std::numeric_limits<float>::denorm_min();
  const double smallest = std::numeric_limits<float>::min();
  for (const QuantizedBits bits : kAllBits) {
    const Case c{.format = {.bits = bits, .block = 4}, .dtype = DType::kF32};
    const Values values = {denormal, -denormal, 100 * denormal, 0, 1};
    EXPECT_TRUE(
        all_near(there_and_back(c, values), values, {smallest, smallest, smallest, smallest, 0}))
        << kZeros;
  }
}

TEST_F(BlockQuantizationTest, ABlockThatIsNotFiniteIsNaNAndNoOtherIs) {
  for_cases([&](const Case& c, std::size_t count) {
    if (count == 0) return;
    Values values = draw(count, c.dtype);
    const double bad = random.pick({kNaN, kInfinity, -kInfinity});
    const std::size_t place = random.between(0, count - 1);
    values[place] = bad;
    const Values found = there_and_back(c, values).to_vector();
    for (std::size_t i = 0; i < count && !HasFailure(); ++i) {
      EXPECT_EQ(std::isnan(found[i]), i / c.format.block == place / c.format.block)
          << "element " << i << ", " << bad << " at " << place << "\n"
          << "Hint: NaN and infinity must not become numbers: such a block has the scale NaN, and "
             "0 * NaN is NaN. Comparing with NaN is always false: std::max does not find it.";
    }
  });
}

/// A machine may round the product before it adds, or not: one rounding of it, and one of the sum.
TEST_F(BlockQuantizationTest, AddingIsDequantisingAndThenAdding) {
  for_cases([&](const Case& c, std::size_t count) {
    const Values values = draw(count, c.dtype);
    Values sums = draw(count, c.dtype);
    for (std::size_t i = 0; i < count; i += 2) sums[i] = 0;  // exact there
    const Tensor into = tensor(sums, c.dtype);
    const Values numbers = there_and_back(c, values).to_vector();
    Values bounds(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (i % 2 == 1) {
        bounds[i] = rounding_bound(c.dtype, 2, std::abs(sums[i]) + std::abs(numbers[i]));
      }
      sums[i] += numbers[i];
    }
    add_dequantized(c.format, message_of(c, values), into);
    EXPECT_TRUE(all_near(into, sums, bounds)) << "Hint: add_dequantized() adds to what is there.";
  });
}

}  // namespace
}  // namespace ultra::zero
