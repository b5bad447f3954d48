// The order of the pairwise algorithms' sums, bit by bit, on ranks of this process. Whole trainings in that
// order: tests/chapters/11_five_d/sums/tree_sums_ranks_test.cpp.

#include "chapters/02_collectives/algorithms/pairwise_reduction.hpp"

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/contracts/rank_order.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

using collectives::BookAlgorithms;
using collectives::BookOptions;
using comm::Chunks;
using comm::Group;

std::shared_ptr<const BookAlgorithms> all_by(const std::string& name) {
  return std::make_shared<BookAlgorithms>(
      BookOptions{.names = {{OpKind::kAllReduce, name}, {OpKind::kReduceScatter, name}}});
}

class PairwiseReduction : public test::RandomTest {};

TEST_F(PairwiseReduction, SumsInTheOrderOfTheRanksWhereverAnElementIs) {
  const auto expect_order = [&](int size, std::size_t count, DType dtype) {
    SCOPED_TRACE(fmt::format("{} {} on {} ranks", count, to_string(dtype), size));
    EXPECT_TRUE(test::reduces_in_rank_order(all_by("pairwise"), size, count, dtype, random));
    EXPECT_TRUE(test::reduces_in_rank_order(all_by("pairwise-tree"), size, count, dtype, random,
                                            test::RankOrder::kTree));
  };
  for (const int size : {1, 2, 3, 4, 5, 7, 8}) {
    const auto p = static_cast<std::size_t>(size);
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, p - 1, 12 * p, std::size_t{101}}) {
      expect_order(size, count, DType::kF32);
    }
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32}) {
      expect_order(size, random.between(1, 900), dtype);
    }
  }
}

// The trial can tell: two ranks have one order only, three have more.
TEST_F(PairwiseReduction, IsNotWhatTheRingDoes) {
  if (launched_world_size()) GTEST_SKIP() << "a process does not see what the others end with";
  EXPECT_TRUE(test::reduces_in_rank_order(all_by("ring"), 2, 300, DType::kI32, random));
  EXPECT_FALSE(test::reduces_in_rank_order(all_by("ring"), 3, 300, DType::kF32, random));
  // Of three ranks the two orders are one.
  EXPECT_FALSE(test::reduces_in_rank_order(all_by("pairwise"), 4, 300, DType::kF32, random,
                                           test::RankOrder::kTree));
}

TEST_F(PairwiseReduction, NeedsScratchMemoryForOneEqualChunk) {
  for (int size = 2; size <= 16; ++size) {
    const std::size_t chunk = random.between(1, 50);
    const std::size_t count = chunk * static_cast<std::size_t>(size);
    for (int r = 0; r < size; ++r) {
      const auto schedule =
          collectives::pairwise_all_reduce(Group::all(r, size), Chunks::even({0, count}, size));
      EXPECT_EQ(schedule.scratch_count, chunk) << "position " << r << " of " << size;
    }
  }
}

TEST_F(PairwiseReduction, NeedsMoreWhereChunksAreUneven) {
  for (int size = 2; size <= 16; ++size) {
    const auto p = static_cast<std::size_t>(size);
    const std::size_t count = random.between(p * p, 100 * p);
    const Chunks even = Chunks::even({0, count}, size);
    for (int r = 0; r < size; ++r) {
      const auto schedule = collectives::pairwise_reduce_scatter(Group::all(r, size), even);
      EXPECT_LE(schedule.scratch_count, 3 * even.largest()) << r << " of " << size;
    }
    // All is position 0's, which has nowhere to keep what the others send it.
    std::vector<std::size_t> counts(p, 0);
    counts.front() = count;
    const auto schedule =
        collectives::pairwise_reduce_scatter(Group::all(0, size), Chunks::of(counts));
    EXPECT_EQ(schedule.scratch_count, (p - 1) * count);
  }
}

}  // namespace
}  // namespace ultra
