#include "kernels/plain/combine.hpp"

#include <algorithm>

#include "tests/kernels/plain/support.hpp"

namespace ultra::kernels::plain::test {
namespace {

class PlainCombine : public PlainTest {
 protected:
  // All ranks' results are one rank's, by a loop in the order of the ranks.
  template <typename T>
  void check_all(Combination op, int ranks) {
    const auto count = static_cast<std::size_t>(between(1, 300));
    std::vector<Checked<T>> buffers;
    std::vector<double> expected;
    for (int rank = 0; rank < ranks; ++rank) {
      buffers.push_back(eighths<T>("rank " + std::to_string(rank), count));
      const std::vector<double> own = values_of(buffers.back());
      for (std::size_t i = 0; i < count; ++i) {
        if (rank == 0) {
          expected.push_back(own[i]);
        } else {
          expected[i] = op == Combination::kMax   ? std::max(expected[i], own[i])
                        : op == Combination::kMin ? std::min(expected[i], own[i])
                                                  : expected[i] + own[i];
        }
      }
    }
    std::vector<void*> into;
    std::vector<const void*> from;
    for (Checked<T>& buffer : buffers) {
      into.push_back(buffer.data());
      from.push_back(buffer.data());
    }
    combine_all<kChecked>(op, number_of<T>(), into, from, count, {});
    for (const Checked<T>& buffer : buffers) {
      const std::vector<double> found = values_of(buffer);
      for (std::size_t i = 0; i < count; ++i) {
        const double wanted = op == Combination::kAverage ? expected[i] / ranks : expected[i];
        ASSERT_EQ(found[i], widened(static_cast<T>(static_cast<float>(wanted))));
      }
    }
  }
};

TEST_F(PlainCombine, AllRanksGetTheResultOfAll) {
  for (const Combination op : {Combination::kSum, Combination::kMax, Combination::kMin}) {
    for (const int ranks : {1, 2, 5, 9}) {
      check_all<float>(op, ranks);
      check_all<double>(op, ranks);
      check_all<simt::half>(op, ranks);
    }
  }
  check_all<simt::bf16>(Combination::kMax, 3);
  check_all<int>(Combination::kSum, 3);
  check_all<float>(Combination::kAverage, 4);
  check_all<simt::bf16>(Combination::kAverage, 2);
}

// 256 + 1 is no bf16 number: rounded after each term the sum would stay at 256.
TEST_F(PlainCombine, TwoBytesAreRoundedOnce) {
  Checked<simt::bf16> big("big", std::vector<simt::bf16>{simt::bf16(256.0F)});
  Checked<simt::bf16> one("one", std::vector<simt::bf16>{simt::bf16(1.0F)});
  Checked<simt::bf16> sum("sum", 1);
  const std::vector<void*> into = {sum.data()};
  const std::vector<const void*> from = {big.data(), one.data(), one.data()};
  combine_all<kChecked>(Combination::kSum, Number::kBf16, into, from, 1, {});
  EXPECT_EQ(values_of(sum).front(), 258.0);
  combine<kChecked>(Combination::kSum, target(big), source(one), 1, {});
  EXPECT_EQ(values_of(big).front(), 256.0);
}

TEST_F(PlainCombine, DivideDividesEveryElement) {
  Checked<float> numbers("numbers", std::vector<float>{1.0F, 2.0F, -5.0F});
  divide<kChecked>(target(numbers), 3, 3, {});
  EXPECT_EQ(numbers.download(), (std::vector<float>{1.0F / 3.0F, 2.0F / 3.0F, -5.0F / 3.0F}));
  Checked<int> integers("integers", std::vector<int>{7, -7});
  divide<kChecked>({Number::kI32, integers.data()}, 2, 2, {});
  EXPECT_EQ(integers.download(), (std::vector<int>{3, -3}));
}

TEST_F(PlainCombine, TooManyRanksAreRefused) {
  const std::vector<const void*> from(kMostRanks + 1, nullptr);
  const std::vector<void*> into(1, nullptr);
  EXPECT_THROW(combine_all<kChecked>(Combination::kSum, Number::kF32, into, from, 1, {}),
               std::invalid_argument);
  EXPECT_THROW(combine_all<kChecked>(Combination::kSum, Number::kF32, into, {}, 1, {}),
               std::invalid_argument);
}

}  // namespace
}  // namespace ultra::kernels::plain::test
