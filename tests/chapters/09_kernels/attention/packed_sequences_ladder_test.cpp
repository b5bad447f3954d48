// What each rung of packed_sequences changes, in counters, worked out from the lengths.

#include "chapters/09_kernels/attention/packed_documents.hpp"
#include "tests/chapters/09_kernels/ladder_fixture.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ladders {
namespace packed_sequences_ladder_test {

using simt::AccessKind;

class PackedSequencesLadder : public test::LadderTest {
 protected:
  PackedSequencesLadder() : LadderTest("packed_sequences", {static_cast<int>(kSequences), 40}) {}

  simt::Site loads_of(const char* rung) { return counters_of(rung).total(AccessKind::kGlobalLoad); }

  // How often the loops of warps run, each as often as its longest lane's.
  static std::uint64_t rounds(const std::vector<int>& lengths_of_lanes) {
    std::uint64_t sum = 0;
    for (std::size_t first = 0; first < kSequences; first += 32) {
      const auto warp = lengths_of_lanes.begin() + static_cast<std::ptrdiff_t>(first);
      sum += static_cast<std::uint64_t>(*std::max_element(warp, warp + 32));
    }
    return sum;
  }

  static constexpr std::size_t kSequences = 96;  // three full warps

  std::vector<int> lengths = sequence_lengths(sizes_, RunRequest{}.seed);
  std::uint64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
};

// Besides its losses, a thread loads where its sequence begins and ends.
TEST_F(PackedSequencesLadder, AWarpRunsAsLongAsItsLongestSequence) {
  const simt::Site loads = loads_of("thread_per_sequence");
  EXPECT_EQ(loads.lanes, tokens + 2 * kSequences);
  EXPECT_EQ(loads.requests, rounds(lengths) + 2 * (kSequences / 32));
}

// And its sequence's number.
TEST_F(PackedSequencesLadder, SortedSequencesLeaveFewLanesIdle) {
  const simt::Site unsorted = loads_of("thread_per_sequence");
  const simt::Site loads = loads_of("sorted_by_length");
  std::ranges::sort(lengths, std::greater{});
  EXPECT_EQ(loads.lanes, tokens + 3 * kSequences);
  EXPECT_EQ(loads.requests, rounds(lengths) + 3 * (kSequences / 32));
  EXPECT_GT(loads.lanes_per_request(), unsorted.lanes_per_request());
}

// All lanes of a warp load where the sequence begins and ends. A request of neighbours touches at
// most 5 sectors.
TEST_F(PackedSequencesLadder, AWarpSharesASequence) {
  const simt::Site loads = loads_of("warp_per_sequence");
  std::uint64_t requests = 2 * kSequences;
  for (const int length : lengths) {
    requests += (static_cast<std::uint64_t>(length) + 31) / 32;
  }
  EXPECT_EQ(loads.lanes, tokens + 2 * 32 * kSequences);
  EXPECT_EQ(loads.requests, requests);
  EXPECT_LE(loads.sectors_per_request(), 5.0);
}

TEST_F(PackedSequencesLadder, TokensDoNotDependOnTheSeed) {
  const std::vector<int> other = sequence_lengths(sizes_, 77);
  EXPECT_NE(other, lengths);
  EXPECT_EQ(std::accumulate(other.begin(), other.end(), std::uint64_t{0}), tokens);
}

}  // namespace packed_sequences_ladder_test
}  // namespace ultra::ladders
