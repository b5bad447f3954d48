// The elements of a file: their types, conversions, places and checksum.
// Covers: common/checkpoint/safetensors/convert.hpp
// Covers: common/checkpoint/safetensors/element_runs.hpp
// Covers: common/checkpoint/checksum.hpp

#include "common/checkpoint/safetensors/stored_type.hpp"

#include "common/checkpoint/checksum.hpp"
#include "common/checkpoint/safetensors/convert.hpp"
#include "common/checkpoint/safetensors/element_runs.hpp"
#include "tests/support/files/llama_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

template <class T>
double converted(T bits, StoredType type, DType dtype = DType::kF64) {
  const Tensor out = Tensor::empty(Device::cpu(), {1}, dtype);
  convert(std::as_bytes(std::span(&bits, 1)), type, out);
  return out.to_vector()[0];
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

TEST(ElementRuns, OfAWholeTensorAreOne) {
  EXPECT_THAT(element_runs({4, 6}, {}, {5, 17}), ElementsAre(ElementRun{5, 0, 12}));
  EXPECT_THAT(element_runs({4, 6}, {}, {0, 24}), ElementsAre(ElementRun{0, 0, 24}));
  EXPECT_THAT(element_runs({4, 6}, {}, {7, 7}), IsEmpty());
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
