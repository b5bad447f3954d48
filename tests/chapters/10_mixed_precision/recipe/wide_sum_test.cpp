// Sums over ranks that are rounded once: at the error of one rounding, however many ranks there are,
// where a ring's grows with each hop; and the ring's bytes.
//
// Covers: chapters/10_mixed_precision/recipe/wide_sum.hpp

#include "chapters/10_mixed_precision/recipe/wide_sum.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/random.hpp"

namespace ultra::mixed_precision {
namespace {

using Values = std::vector<double>;

/// What is added up, and what comes out of both ways to do it.
struct Sums {
  Values exact;
  Values wide;
  Values by_ring;
  std::size_t wide_bytes = 0;  // sent by all ranks
  std::size_t ring_bytes = 0;
};

class WideSum : public ultra::test::RandomTest {
 protected:
  Sums sums_of(int ranks, DType dtype, std::size_t count) {
    std::vector<Tensor> numbers;
    Sums sums;
    sums.exact.resize(count);
    for (int rank = 0; rank < ranks; ++rank) {
      const Tensor wide = random.tensor(device, {count}, DType::kF32);
      for (float& x : wide.span<float>()) x = 1.0F + std::abs(x);
      numbers.push_back(cast(wide, dtype));
      const Values values = cast(numbers.back(), DType::kF32).to_vector();
      for (std::size_t i = 0; i < count; ++i) sums.exact[i] += values[i];
    }
    const auto run = [&](bool wide, Values& found, std::size_t& bytes) {
      std::vector<std::size_t> sent(numbers.size());
      std::vector<Values> results(numbers.size());
      RankOptions options;
      options.algorithms = std::make_shared<collectives::BookAlgorithms>(
          collectives::BookOptions{.names = {{OpKind::kAllReduce, "ring"}}, .tuning = {}});
      run_ranks(
          ranks,
          [&](Communicator& world) {
            const auto rank = static_cast<std::size_t>(world.rank());
            const Tensor data = numbers[rank].clone();
            if (wide) {
              all_reduce_wide(world, data);
            } else {
              world.all_reduce(data);
            }
            results[rank] = cast(data, DType::kF32).to_vector();
            for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllToAll, OpKind::kAllGather}) {
              sent[rank] += world.stats()[kind].sent_bytes;
            }
          },
          options);
      for (const Values& result : results) EXPECT_EQ(result, results.front());
      found = results.front();
      for (const std::size_t of_rank : sent) bytes += of_rank;
    };
    run(true, sums.wide, sums.wide_bytes);
    run(false, sums.by_ring, sums.ring_bytes);
    return sums;
  }
};

/// The nearest number of two bytes.
double rounded(double x, DType dtype) {
  const Tensor number = Tensor::empty(Device::cpu(), {1}, dtype);
  number.fill(x);
  return cast(number, DType::kF32).to_vector().front();
}

/// Root mean square of the relative errors.
double error_of(const Values& found, const Values& exact) {
  double squares = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    squares += std::pow((found[i] - exact[i]) / exact[i], 2);
  }
  return std::sqrt(squares / static_cast<double>(exact.size()));
}

TEST_F(WideSum, IsRoundedOnceOnAnyNumberOfRanks) {
  for (const auto& [dtype, rounding] :
       {std::pair{DType::kBF16, 0x1p-9}, std::pair{DType::kF16, 0x1p-12}}) {
    for (const int ranks : {1, 2, 3, 5, 8, 16}) {
      const std::size_t count = random.between(1, 300);
      const Sums sums = sums_of(ranks, dtype, count);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(sums.wide[i], rounded(sums.exact[i], dtype)) << ranks << " ranks";
        EXPECT_LE(std::abs(sums.wide[i] - sums.exact[i]), 2 * rounding * sums.exact[i]);
      }
    }
  }
}

// A hop rounds at half a last place: errors of P - 1 hops add up like steps of a random walk.
TEST_F(WideSum, StaysWhereTheErrorOfARingGrows) {
  Values wide;
  Values by_ring;
  for (const int ranks : {2, 4, 8, 16}) {
    const Sums sums = sums_of(ranks, DType::kBF16, 4096);
    wide.push_back(error_of(sums.wide, sums.exact));
    by_ring.push_back(error_of(sums.by_ring, sums.exact));
    EXPECT_LE(wide.back(), 0x1p-8);
    EXPECT_LE(by_ring.back(), (ranks - 1) * 0x1p-8);
  }
  EXPECT_EQ(wide.front(), by_ring.front()) << "two ranks: one hop";
  EXPECT_GT(by_ring[2], 1.3 * wide[2]);
  EXPECT_GT(by_ring[3], 1.5 * wide[3]);
  EXPECT_LT(wide[3], 2 * wide[0]);
}

TEST_F(WideSum, SendsWhatARingSends) {
  for (const int ranks : {2, 3, 4, 7}) {
    const auto members = static_cast<std::size_t>(ranks);
    const std::size_t count = random.between(1, 200);
    const Sums sums = sums_of(ranks, DType::kBF16, count);
    EXPECT_EQ(sums.wide_bytes, 2 * 2 * (members - 1) * count) << ranks << " ranks, " << count;
    EXPECT_EQ(sums.wide_bytes, sums.ring_bytes) << ranks << " ranks, " << count;
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
