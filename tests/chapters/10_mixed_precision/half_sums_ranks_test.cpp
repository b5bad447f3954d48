// Sums of numbers of two bytes over ranks: a hop adds in f32 and rounds once, so the error is that of
// as many roundings as hops, whatever the algorithm.
//
// Covers: common/comm/collectives/reduce_op.hpp

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

using collectives::BookAlgorithms;
using collectives::BookOptions;
using collectives::CollectiveRequest;

/// Half the last place of a number in [1, 2).
double rounding_of(DType dtype) { return dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11; }

class HalfSums : public ultra::test::RandomTest {
 protected:
  /// The largest error of an all-reduce, over the sum of magnitudes.
  double error_of(const std::string& algorithm, int ranks, DType dtype) {
    const std::size_t count = random.between(1, 400);
    std::vector<Tensor> numbers;
    for (int rank = 0; rank < ranks; ++rank) {
      numbers.push_back(cast(random.tensor(device, {count}, DType::kF32), dtype));
    }
    std::vector<double> exact(count, 0.0);
    std::vector<double> magnitudes(count, 0.0);
    for (const Tensor& tensor : numbers) {
      const std::vector<double> values = cast(tensor, DType::kF32).to_vector();
      for (std::size_t i = 0; i < count; ++i) {
        exact[i] += values[i];
        magnitudes[i] += std::abs(values[i]);
      }
    }
    double worst = 0;
    const auto reduce = [&](Communicator& world) {
      const Tensor sum = numbers.at(static_cast<std::size_t>(world.rank())).clone();
      world.all_reduce(sum).wait();
      if (world.rank() != 0) return;
      const std::vector<double> found = cast(sum, DType::kF32).to_vector();
      for (std::size_t i = 0; i < count; ++i) {
        worst = std::max(worst, std::abs(found[i] - exact[i]) / magnitudes[i]);
      }
    };
    RankOptions options;
    options.algorithms = std::make_shared<BookAlgorithms>(
        BookOptions{.names = {{OpKind::kAllReduce, algorithm}}, .tuning = {}});
    run_ranks(ranks, reduce, options);
    return worst;
  }
};

TEST_F(HalfSums, TheErrorIsThatOfOneRoundingPerHop) {
  for (const auto& algorithm : collectives::algorithms(OpKind::kAllReduce)) {
    for (const int ranks : {2, 3, 4, 5, 8}) {
      const auto request =
          CollectiveRequest::of(OpKind::kAllReduce, comm::Group::all(0, ranks), 0, {});
      if (!algorithm.why_not(request).empty()) continue;
      for (const DType dtype : {DType::kBF16, DType::kF16}) {
        SCOPED_TRACE(fmt::format("{} on {} ranks, {}", algorithm.name, ranks, to_string(dtype)));
        const double bound = (ranks - 1) * rounding_of(dtype);
        EXPECT_LE(error_of(std::string(algorithm.name), ranks, dtype), 1.01 * bound);
      }
    }
  }
}

TEST_F(HalfSums, ATreeRoundsAsOftenAsItIsDeep) {
  for (const auto& [ranks, depth] : {std::pair{2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 3}}) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      SCOPED_TRACE(fmt::format("{} ranks, {}", ranks, to_string(dtype)));
      EXPECT_LE(error_of("pairwise-tree", ranks, dtype), 1.01 * depth * rounding_of(dtype));
    }
  }
}

// Whole numbers below 256 have all their bits in bf16, and so have their sums.
TEST_F(HalfSums, SumsThatNeedNoRoundingAreExact) {
  for (const auto& algorithm : collectives::algorithms(OpKind::kAllReduce)) {
    for (const int ranks : {2, 4, 8}) {
      const auto request =
          CollectiveRequest::of(OpKind::kAllReduce, comm::Group::all(0, ranks), 0, {});
      if (!algorithm.why_not(request).empty()) continue;
      RankOptions options;
      options.algorithms = std::make_shared<BookAlgorithms>(
          BookOptions{.names = {{OpKind::kAllReduce, std::string(algorithm.name)}}, .tuning = {}});
      run_ranks(
          ranks,
          [&](Communicator& world) {
            const Tensor sum = Tensor::empty(Device::cpu(), {37}, DType::kBF16);
            sum.fill(world.rank() + 1.0);
            world.all_reduce(sum).wait();
            const double expected = ranks * (ranks + 1) / 2.0;
            EXPECT_EQ(cast(sum, DType::kF32).to_vector(), std::vector<double>(37, expected))
                << algorithm.name;
          },
          options);
    }
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
