#include "chapters/06_context_parallel/block_attention.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::context_parallel {
namespace {

TEST(SeenPairs, AreThoseThatTheMaskLetsThrough) {
  test::Random random(test::seed_of_this_run());
  const auto range = [&] {
    const std::size_t begin = random.between(0, 40);
    return Range{begin, begin + random.between(0, 20)};
  };
  for (int i = 0; i < 500; ++i) {
    const Range queries = range();
    const Range keys = range();
    const SequenceMask mask{.seq_len = random.between(0, 60), .window = random.between(0, 30)};
    std::size_t pairs = 0;
    for (std::size_t q = queries.begin; q < std::min(queries.end, mask.seq_len); ++q) {
      for (std::size_t k = keys.begin; k < keys.end; ++k) pairs += k <= q && k >= mask.begin_of(q);
    }
    EXPECT_EQ(seen_pairs(queries, keys, mask), pairs)
        << queries.begin << " " << queries.end << " " << keys.begin << " " << keys.end << " of "
        << mask.seq_len << ", window " << mask.window;
  }
}

}  // namespace
}  // namespace ultra::context_parallel
