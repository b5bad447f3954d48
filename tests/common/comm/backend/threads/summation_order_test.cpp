// The order in which ranks that share memory add, bit by bit: the ranks' own, for arrays small
// enough for one meeting, for larger ones, and for those that span several tiles of the loop.

#include "common/comm/backend/threads/direct_board.hpp"
#include "tests/support/contracts/rank_order.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::comm::threads {
namespace {

class SummationOrder : public test::RandomTest {};

TEST_F(SummationOrder, IsThatOfTheRanksWhereverAnElementIs) {
  const std::size_t staged = Showing::kStagedBytes / sizeof(float);
  for (const int size : {1, 2, 3, 4, 5, 8}) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{2}, random.between(3, staged), staged + 1,
          random.between(staged + 1, 10'000) * static_cast<std::size_t>(size)}) {
      for (const DType dtype : {DType::kF32, random.pick({DType::kF64, DType::kI32})}) {
        SCOPED_TRACE(fmt::format("{} {} on {} ranks", count, to_string(dtype), size));
        EXPECT_TRUE(test::reduces_in_rank_order(nullptr, size, count, dtype, random));
      }
    }
  }
}

}  // namespace
}  // namespace ultra::comm::threads
