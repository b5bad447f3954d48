// Exercise 09.7: softmax whose largest element and sum come from one pass.

#include <gtest/gtest.h>

#include "tests/support/contracts/accesses.hpp"
#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class OnlineSoftmax : public test::RandomTest {
 protected:
  std::unique_ptr<Ladder> ladder = softmax_ladder();
  int rung = test::find_rung(*ladder, "online");
};

// Every lane has elements.
TEST_F(OnlineSoftmax, RescalesTheSum) {
  for (const int columns : {32, 64, 200}) {
    test::expect_right(
        *ladder, rung, {.sizes = {8, columns}},
        "exp() sees differences from the largest element only; when that grows, the sum so far is "
        "multiplied by exp(old - new), and so are the lanes' sums before they are added");
  }
}

// Some lanes have none; and in every test one element in eight is masked, by -infinity.
TEST_F(OnlineSoftmax, TakesRowsShorterThanAWarp) {
  for (const int columns : {1, 2, 31}) {
    test::expect_right(*ladder, rung, {.sizes = {5, columns}},
                       "begin with a largest of -FLT_MAX and a sum of 0: elements may be masked by "
                       "-infinity, and infinity - infinity is NaN");
  }
}

TEST_F(OnlineSoftmax, IsRightForAnyShape) {
  test::expect_right_everywhere(*ladder, rung, random, 3);
}

TEST_F(OnlineSoftmax, ReadsTwiceAndWritesOnce) {
  constexpr std::uint64_t kElements = 24 * 128;
  const simt::Report report = test::counted(*ladder, rung, {24, 128});
  const simt::Site loads = report.total(AccessKind::kGlobalLoad);
  test::expect_bytes(report, AccessKind::kGlobalLoad, 2 * kElements * sizeof(float),
                     "one pass finds the largest element and the sum, a second one writes");
  test::expect_bytes(report, AccessKind::kGlobalStore, kElements * sizeof(float),
                     "each element is written once");
  EXPECT_LE(loads.sectors_per_request(), 4.0)
      << "Hint: the lanes of a warp share a row and read neighbours";
}

}  // namespace
}  // namespace ultra::ladders
