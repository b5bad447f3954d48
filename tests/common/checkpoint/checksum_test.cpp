#include "common/checkpoint/checksum.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/random.hpp"

namespace ultra::checkpoint {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Checksum, IsThatOfTheStandard) {
  EXPECT_EQ(crc32_of({}), 0U);
  EXPECT_EQ(crc32_of(bytes_of("123456789")), 0xcbf43926U) << "the check value of CRC-32/ISO-HDLC";
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
