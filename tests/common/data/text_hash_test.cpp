#include "common/data/text_hash.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "tests/support/random.hpp"

namespace ultra::data {
namespace {

std::uint64_t hash_of(const std::vector<std::uint8_t>& bytes) {
  TextHash hash;
  hash.add(bytes);
  return hash.value();
}

/// 0, 1, 2 ... 255, 0, 1 ...
std::vector<std::uint8_t> counting(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return bytes;
}

// Expected: what the author's implementation gives (xxh64 of the Python package xxhash 4.1.0).
TEST(TextHash, IsXxh64) {
  EXPECT_EQ(TextHash().value(), 0xef46db3751d8e999U);
  EXPECT_EQ(hash_of({'a'}), 0xd24ec4f1a98c6e5bU);
  EXPECT_EQ(hash_of({'a', 'b', 'c'}), 0x44bc2cf5ad770999U);
  EXPECT_EQ(hash_of(counting(31)), 0xc346d2b59b4d8ee1U) << "the last bytes without a stripe";
  EXPECT_EQ(hash_of(counting(32)), 0xcbf59c5116ff32b4U) << "one stripe";
  EXPECT_EQ(hash_of(counting(33)), 0x0c535d1acafb8eadU) << "and a byte";
  EXPECT_EQ(hash_of(counting(1280)), 0xafc184ad7938a354U);
}

TEST(TextHash, DoesNotDependOnThePiecesInWhichTheTextComes) {
  const std::uint64_t seed = test::seed_of_this_run();
  SCOPED_TRACE(testing::Message() << "ULTRA_TEST_SEED=" << seed);
  test::Random random(seed);
  for (int round = 0; round < 200; ++round) {
    const std::vector<std::uint8_t> bytes = counting(random.between(0, 300));
    TextHash in_pieces;
    std::span<const std::uint8_t> left = bytes;
    while (!left.empty()) {
      const std::size_t size = random.between(0, std::min<std::size_t>(left.size(), 70));
      in_pieces.add(left.first(size));
      left = left.subspan(size);
    }
    ASSERT_EQ(in_pieces.value(), hash_of(bytes)) << bytes.size() << " bytes";
  }
}

TEST(TextHash, EveryByteCounts) {
  const std::vector<std::uint8_t> bytes = counting(100);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::vector<std::uint8_t> changed = bytes;
    changed[i] ^= 1;
    EXPECT_NE(hash_of(changed), hash_of(bytes)) << "byte " << i;
  }
}

}  // namespace
}  // namespace ultra::data
