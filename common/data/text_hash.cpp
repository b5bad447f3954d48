#include "common/data/text_hash.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ultra::data {
namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87U;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FU;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9U;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63U;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5U;

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

template <class Word>
std::uint64_t word_at(const std::uint8_t* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

std::uint64_t round_of(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

std::uint64_t avalanche(std::uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace

void TextHash::add_stripe(const std::uint8_t* bytes) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane] = round_of(lanes_[lane], word_at<std::uint64_t>(bytes + 8 * lane));
  }
}

void TextHash::add(std::span<const std::uint8_t> bytes) {
  const std::size_t waiting = size_ % kStripe;
  size_ += bytes.size();
  if (waiting > 0) {
    const std::size_t taken = std::min(kStripe - waiting, bytes.size());
    std::copy_n(bytes.begin(), taken, rest_.begin() + static_cast<std::ptrdiff_t>(waiting));
    bytes = bytes.subspan(taken);
    if (waiting + taken < kStripe) return;
    add_stripe(rest_.data());
  }
  for (; bytes.size() >= kStripe; bytes = bytes.subspan(kStripe)) add_stripe(bytes.data());
  std::ranges::copy(bytes, rest_.begin());
}

std::uint64_t TextHash::value() const {
  std::uint64_t hash = lanes_[2] + kPrime5;  // of a short text: the seed
  if (size_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const std::uint64_t lane : lanes_) {
      hash = (hash ^ round_of(0, lane)) * kPrime1 + kPrime4;
    }
  }
  hash += size_;
  const std::uint8_t* byte = rest_.data();
  std::size_t left = size_ % kStripe;
  for (; left >= 8; left -= 8, byte += 8) {
    hash = std::rotl(hash ^ round_of(0, word_at<std::uint64_t>(byte)), 27) * kPrime1 + kPrime4;
  }
  for (; left >= 4; left -= 4, byte += 4) {
    hash = std::rotl(hash ^ (word_at<std::uint32_t>(byte) * kPrime1), 23) * kPrime2 + kPrime3;
  }
  for (; left > 0; --left, ++byte) hash = std::rotl(hash ^ (*byte * kPrime5), 11) * kPrime1;
  return avalanche(hash);
}

}  // namespace ultra::data
