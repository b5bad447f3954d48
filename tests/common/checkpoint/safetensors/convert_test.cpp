#include "common/checkpoint/safetensors/convert.hpp"

#include <cstring>

#include "tests/support/llama_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

template <class T>
double converted(T bits, StoredType type, DType dtype = DType::kF64) {
  const Tensor out = Tensor::empty(Device::cpu(), {1}, dtype);
  convert(std::as_bytes(std::span(&bits, 1)), type, out);
  return out.to_vector()[0];
}

double half(std::uint16_t bits) { return converted(bits, StoredType::kF16); }
double brain(std::uint16_t bits) { return converted(bits, StoredType::kBF16); }

// Encodings by IEEE 754-2019, table 3.5, binary16.
TEST(Convert, HalfPrecisionByItsEncodings) {
  EXPECT_EQ(half(0x3C00), 1.0);
  EXPECT_EQ(half(0xC000), -2.0);
  EXPECT_EQ(half(0x7BFF), 65504.0) << "the largest";
  EXPECT_EQ(half(0x0400), std::ldexp(1.0, -14)) << "the smallest normal one";
  EXPECT_EQ(half(0x0001), std::ldexp(1.0, -24)) << "the smallest one";
  EXPECT_EQ(half(0x83FF), -std::ldexp(1023.0, -24));
  EXPECT_EQ(half(0x3555), 0.333251953125);
  EXPECT_EQ(half(0x0000), 0.0);
  EXPECT_TRUE(std::signbit(half(0x8000)));
  EXPECT_EQ(half(0xFC00), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(half(0x7E00)));
}

TEST(Convert, EveryHalfIsTheNextOneAboveItsNeighbour) {
  for (std::uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const double step = half(static_cast<std::uint16_t>(bits + 1)) - half(bits);
    const int exponent = std::max(bits >> 10, 1);
    ASSERT_EQ(step, std::ldexp(1.0, exponent - 25)) << bits;
  }
}

TEST(Convert, BfloatIsTheUpperHalfOfAFloat) {
  for (const std::uint32_t upper : {0x0000U, 0x3F80U, 0xC0A0U, 0x0001U, 0x7F7FU, 0xFF80U}) {
    const std::uint32_t whole = upper << 16U;
    float expected = 0;
    std::memcpy(&expected, &whole, sizeof(expected));
    EXPECT_EQ(brain(static_cast<std::uint16_t>(upper)), static_cast<double>(expected)) << upper;
  }
}

TEST(Convert, WiderNumbersAreRoundedToTheNearest) {
  EXPECT_EQ(converted(0.1, StoredType::kF64), 0.1);
  EXPECT_EQ(converted(0.1, StoredType::kF64, DType::kF32), static_cast<double>(0.1F));
  EXPECT_EQ(converted(0.1F, StoredType::kF32), static_cast<double>(0.1F));
}

class ConvertRandom : public test::RandomTest {};

TEST_F(ConvertRandom, NumbersOfManyElementsInEveryType) {
  for (const StoredType type :
       {StoredType::kF16, StoredType::kBF16, StoredType::kF32, StoredType::kF64}) {
    ASSERT_TRUE(is_converted(type));
    std::vector<double> values;
    std::string bytes;
    for (std::size_t i = 0; i < random.between(1, 300); ++i) {
      values.push_back((static_cast<double>(random.between(0, 200)) - 100) / 64);
      bytes += test::stored_bytes(values.back(), type);
    }
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      const Tensor out = Tensor::empty(Device::cpu(), {values.size()}, dtype);
      convert(std::as_bytes(std::span(bytes)), type, out);
      EXPECT_EQ(out.to_vector(), values);
    }
  }
}

TEST(Convert, OtherTypesAndOtherLengthsAreBugs) {
  const Tensor out = Tensor::empty(Device::cpu(), {2}, DType::kF32);
  const std::vector<std::byte> bytes(8);
  EXPECT_FALSE(is_converted(StoredType::kI64));
  EXPECT_THROW(convert(bytes, StoredType::kI32, out), InternalError);
  EXPECT_THROW(convert(bytes, StoredType::kF64, out), InternalError);
}

}  // namespace
}  // namespace ultra::checkpoint
