#pragma once
// What tests of the ladders of attention share: the seeds, and the bytes that a rung moves.

#include <cstdint>
#include <string>

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {

inline constexpr std::uint64_t kFull = 4;  // an even seed: no causal mask
inline constexpr std::uint64_t kCausal = 1;
inline constexpr std::uint64_t kFullLarge = 2;
inline constexpr std::uint64_t kCausalLarge = 3;

class AttentionLadderTest : public ultra::test::LadderTest {
 protected:
  using LadderTest::LadderTest;

  std::uint64_t loaded(const std::string& rung, const Sizes& sizes, std::uint64_t seed) {
    return counters_of(rung, sizes, seed).total(simt::AccessKind::kGlobalLoad).bytes;
  }
  std::uint64_t stored(const std::string& rung, const Sizes& sizes, std::uint64_t seed) {
    return counters_of(rung, sizes, seed).total(simt::AccessKind::kGlobalStore).bytes;
  }
};

}  // namespace ultra::ladders
