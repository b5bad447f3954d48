#include "common/checkpoint/safetensors/element_runs.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

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

}  // namespace
}  // namespace ultra::checkpoint
