// The elements of a file: their types, conversions, places and checksum.
// Covers: common/checkpoint/safetensors/convert.hpp
// Covers: common/checkpoint/safetensors/element_runs.hpp
// Covers: common/checkpoint/checksum.hpp

#include "common/checkpoint/safetensors/stored_type.hpp"

#include <cstring>
#include <set>

#include "common/checkpoint/checksum.hpp"
#include "common/checkpoint/safetensors/convert.hpp"
#include "common/checkpoint/safetensors/element_runs.hpp"
#include "tests/support/files/llama_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

TEST(StoredTypes, HaveNamesThatLeadBackToThem) {
  std::set<std::string> names;
  for (const StoredType type : kStoredTypes) {
    EXPECT_EQ(parse_stored_type(to_string(type)), type) << to_string(type);
    names.emplace(to_string(type));
  }
  EXPECT_EQ(names.size(), kStoredTypes.size());
  EXPECT_EQ(parse_stored_type("F31"), std::nullopt);
  EXPECT_EQ(parse_stored_type(""), std::nullopt);
}

TEST(StoredTypes, AreListedInTheOrderOfTheirNumbers) {
  for (std::size_t i = 0; i < kStoredTypes.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kStoredTypes[i]), i);
  }
}

TEST(StoredTypes, MatchTheDTypesOfTensors) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kBF16, DType::kF16}) {
    const StoredType type = stored_type_for(dtype);
    EXPECT_EQ(dtype_for(type), dtype);
    EXPECT_EQ(size_of(type), size_of(dtype));
  }
  EXPECT_EQ(stored_type_for(DType::kF32), StoredType::kF32);
  EXPECT_EQ(stored_type_for(DType::kF64), StoredType::kF64);
  EXPECT_EQ(stored_type_for(DType::kI32), StoredType::kI32);
  EXPECT_EQ(stored_type_for(DType::kBF16), StoredType::kBF16);
  EXPECT_EQ(stored_type_for(DType::kF16), StoredType::kF16);
  int count = 0;
  for (const StoredType type : kStoredTypes) count += dtype_for(type).has_value() ? 1 : 0;
  EXPECT_EQ(count, 5) << "all others have no DType";
}

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

TEST(ElementRuns, OfAWholeTensorAreOne) {
  EXPECT_THAT(element_runs({4, 6}, {}, {5, 17}), ElementsAre(ElementRun{5, 0, 12}));
  EXPECT_THAT(element_runs({4, 6}, {}, {0, 24}), ElementsAre(ElementRun{0, 0, 24}));
  EXPECT_THAT(element_runs({4, 6}, {}, {7, 7}), IsEmpty());
}

TEST(ElementRuns, OfRowsAreOneAndOfColumnsOnePerRow) {
  const std::vector<Range> rows = {{1, 3}, {0, 6}};
  EXPECT_THAT(element_runs({4, 6}, rows, {0, 12}), ElementsAre(ElementRun{6, 0, 12}));
  const std::vector<Range> columns = {{0, 4}, {2, 4}};
  EXPECT_THAT(element_runs({4, 6}, columns, {1, 6}),
              ElementsAre(ElementRun{3, 0, 1}, ElementRun{8, 1, 2}, ElementRun{14, 3, 2}));
}

class RandomRuns : public ultra::test::RandomTest {};

/// The row-major indices in the whole tensor of all elements of a shard, one after the other.
std::vector<std::size_t> indices_of(const Shape& whole, const std::vector<Range>& shard) {
  std::vector<std::size_t> indices;
  for (std::size_t index = 0; index < whole.numel(); ++index) {
    std::size_t rest = index;
    bool inside = true;
    for (std::size_t dim = whole.rank(); dim-- > 0;) {
      const std::size_t at = rest % whole.dims()[dim];
      rest /= whole.dims()[dim];
      inside = inside && at >= shard[dim].begin && at < shard[dim].end;
    }
    if (inside) indices.push_back(index);
  }
  return indices;
}

TEST_F(RandomRuns, NameEveryElementOnceAndAreAsFewAsPossible) {
  for (int attempt = 0; attempt < 300; ++attempt) {
    std::vector<std::size_t> dims;
    std::vector<Range> shard;
    for (std::size_t dim = random.between(1, 4); dim > 0; --dim) {
      dims.push_back(random.between(1, 5));
      const std::size_t begin = random.between(0, dims.back() - 1);
      shard.push_back({begin, random.between(begin + 1, dims.back())});
    }
    const Shape whole(dims);
    const std::vector<std::size_t> indices = indices_of(whole, shard);
    const std::size_t begin = random.between(0, indices.size());
    const std::size_t end = random.between(begin, indices.size());
    std::size_t next = 0;
    std::size_t expected_runs = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (i == begin || indices[i] != indices[i - 1] + 1) ++expected_runs;
    }
    const std::vector<ElementRun> runs = element_runs(whole, shard, {begin, end});
    for (const ElementRun& run : runs) {
      ASSERT_EQ(run.local, next) << whole.str();
      for (std::size_t i = 0; i < run.count; ++i) {
        ASSERT_EQ(run.global + i, indices[begin + next++]) << whole.str();
      }
    }
    ASSERT_EQ(next, end - begin);
    ASSERT_GE(runs.size(), expected_runs);
    if (begin == 0 && end == indices.size() && whole.rank() == 2) {
      ASSERT_EQ(runs.size(), expected_runs) << whole.str();
    }
  }
}

TEST(ElementRuns, OutsideTheTensorOrTheShardAreABug) {
  const std::vector<Range> shard = {{1, 3}, {0, 6}};
  EXPECT_THROW(static_cast<void>(element_runs({4, 6}, {}, {0, 25})), InternalError);
  EXPECT_THROW(static_cast<void>(element_runs({4, 6}, shard, {0, 13})), InternalError);
  EXPECT_THROW(static_cast<void>(element_runs({2, 6}, shard, {0, 12})), InternalError);
  EXPECT_THROW(static_cast<void>(element_runs({24}, shard, {0, 12})), InternalError);
}

TEST(Checksum, IsThatOfTheStandard) {
  EXPECT_EQ(crc32_of({}), 0U);
  const std::string_view digits = "123456789";
  EXPECT_EQ(crc32_of(std::as_bytes(std::span(digits))), 0xcbf43926U)
      << "the check value of CRC-32/ISO-HDLC";
}

class RandomChecksum : public ultra::test::RandomTest {};

TEST_F(RandomChecksum, OfPartsIsThatOfTheWholeAndAnyFlippedBitChangesIt) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string text(random.between(1, 300), ' ');
    for (char& c : text) c = static_cast<char>(random.between(0, 255));
    const std::uint32_t whole = crc32_of(bytes_of(text));
    const std::size_t cut = random.between(0, text.size());
    EXPECT_EQ(crc32_of(bytes_of(text).subspan(cut), crc32_of(bytes_of(text).first(cut))), whole);
    text[random.between(0, text.size() - 1)] ^= static_cast<char>(1U << random.between(0, 7));
    EXPECT_NE(crc32_of(bytes_of(text)), whole);
  }
}

}  // namespace
}  // namespace ultra::checkpoint
