// Sums over ranks of numbers of two bytes. A hop adds in f32 and rounds once, so the error is that of as many
// roundings as hops, whatever the algorithm; where contributions travel and not partial sums, that of one
// rounding, however many ranks there are, for the ring's bytes.
//
// Covers: chapters/02_collectives/algorithms/pairwise_reduction.hpp
// Covers: common/comm/collectives/reduce_op.hpp
// Covers: common/comm/collectives/schedule_runner.hpp

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

using Values = std::vector<double>;

/// All-reduces, or reduces and scatters, and gathers again.
enum class Way { kAllReduce, kReduceScatter };

/// What comes out on every rank.
struct Sum {
  Values values;
  std::size_t bytes = 0;  ///< sent by all ranks
};

/// Half the last place of a number in [1, 2).
double rounding_of(DType dtype) { return dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11; }

/// The nearest number of two bytes.
double rounded(double x, DType dtype) {
  return cast(ultra::test::filled(Device::cpu(), {1}, dtype, x), DType::kF32).to_vector().front();
}

class SumsOfTwoBytes : public ultra::test::RandomTest {
 protected:
  /// Draws what each rank adds, of both signs or not, and adds it up exactly.
  void draw(int ranks, DType dtype, std::size_t count, bool positive) {
    numbers.clear();
    exact.assign(count, 0.0);
    magnitudes.assign(count, 0.0);
    for (int rank = 0; rank < ranks; ++rank) {
      const Tensor wide = random.tensor(device, {count}, DType::kF32);
      for (float& x : wide.span<float>()) x = positive ? 1.0F + std::abs(x) : x;
      numbers.push_back(cast(wide, dtype));
      const Values values = cast(numbers.back(), DType::kF32).to_vector();
      for (std::size_t i = 0; i < count; ++i) {
        exact[i] += values[i];
        magnitudes[i] += std::abs(values[i]);
      }
    }
  }

  [[nodiscard]] Sum summed(const std::string& algorithm, Way way = Way::kAllReduce) const {
    std::vector<Sum> sums(numbers.size());
    RankOptions options;
    options.algorithms = std::make_shared<collectives::BookAlgorithms>(collectives::BookOptions{
        .names = {{way == Way::kAllReduce ? OpKind::kAllReduce : OpKind::kReduceScatter,
                   algorithm}},
        .tuning = {}});
    const auto of_rank = [&](Communicator& world) {
      const auto rank = static_cast<std::size_t>(world.rank());
      const Tensor data = numbers[rank].clone();
      if (way == Way::kAllReduce) {
        world.all_reduce(data).wait();
      } else {
        const comm::Chunks chunks = comm::Chunks::even({0, data.numel()}, world.size());
        const Tensor own = data.slice(0, chunks[world.rank()]);
        world.reduce_scatter(data, own).wait();
        world.all_gather(own, data).wait();
      }
      sums[rank].values = cast(data, DType::kF32).to_vector();
      for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather}) {
        sums[rank].bytes += world.stats()[kind].sent_bytes;
      }
    };
    run_ranks(static_cast<int>(numbers.size()), of_rank, options);
    Sum all = sums.front();
    for (std::size_t rank = 1; rank < sums.size(); ++rank) {
      EXPECT_EQ(sums[rank].values, all.values);
      all.bytes += sums[rank].bytes;
    }
    return all;
  }

  /// The largest error of an all-reduce, over the sum of magnitudes.
  double largest_error(const std::string& algorithm) const {
    const Values found = summed(algorithm).values;
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double error = std::abs(found[i] - exact[i]) / magnitudes[i];
      EXPECT_FALSE(std::isnan(error)) << "element " << i;
      worst = std::max(worst, error);
    }
    return worst;
  }

  /// Root mean square of the relative errors.
  double error_of(const Values& found) const {
    double squares = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      squares += std::pow((found[i] - exact[i]) / exact[i], 2);
    }
    return std::sqrt(squares / static_cast<double>(exact.size()));
  }

  std::vector<Tensor> numbers;
  Values exact, magnitudes;
};

TEST_F(SumsOfTwoBytes, HaveTheErrorOfOneRoundingPerHop) {
  for (const auto& algorithm : collectives::algorithms(OpKind::kAllReduce)) {
    for (const auto& [ranks, depth] : {std::pair{2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 3}}) {
      const auto request =
          collectives::CollectiveRequest::of(OpKind::kAllReduce, comm::Group::all(0, ranks), 0, {});
      if (!algorithm.why_not(request).empty()) continue;
      const int hops = algorithm.name == "pairwise-tree" ? depth : ranks - 1;
      for (const DType dtype : {DType::kBF16, DType::kF16}) {
        SCOPED_TRACE(fmt::format("{} on {} ranks, {}", algorithm.name, ranks, to_string(dtype)));
        draw(ranks, dtype, random.between(1, 400), false);
        EXPECT_LE(largest_error(std::string(algorithm.name)), 1.01 * hops * rounding_of(dtype));
      }
    }
  }
}

TEST_F(SumsOfTwoBytes, PairwiseAreRoundedOnceForTheBytesOfARing) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const int ranks : {1, 2, 3, 5, 8, 16}) {
      const std::size_t count = random.between(1, 300);
      const Way way = random.pick({Way::kAllReduce, Way::kReduceScatter});
      draw(ranks, dtype, count, true);
      const Sum once = summed("pairwise", way);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(once.values[i], rounded(exact[i], dtype)) << ranks << " ranks";
      }
      EXPECT_EQ(once.bytes, 2 * 2 * static_cast<std::size_t>(ranks - 1) * count);
      EXPECT_EQ(once.bytes, summed("ring", way).bytes) << ranks << " ranks, " << count;
    }
  }
}

// A hop rounds at half a last place: errors of P - 1 hops add up like steps of a random walk.
TEST_F(SumsOfTwoBytes, PairwiseStayWhereTheErrorOfARingGrows) {
  Values once;
  Values by_ring;
  for (const int ranks : {2, 4, 8, 16}) {
    draw(ranks, DType::kBF16, 4096, true);
    once.push_back(error_of(summed("pairwise").values));
    by_ring.push_back(error_of(summed("ring").values));
    EXPECT_LE(once.back(), 0x1p-8);
    EXPECT_LE(by_ring.back(), (ranks - 1) * 0x1p-8);
  }
  EXPECT_EQ(once.front(), by_ring.front()) << "two ranks: one hop";
  EXPECT_GT(by_ring[2], 1.3 * once[2]);
  EXPECT_GT(by_ring[3], 1.5 * once[3]);
  EXPECT_LT(once[3], 2 * once[0]);
}

}  // namespace
}  // namespace ultra::mixed_precision
