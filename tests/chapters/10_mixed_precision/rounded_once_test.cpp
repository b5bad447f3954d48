// Sums over ranks that are rounded once, because contributions travel and not partial sums: at the
// error of one rounding, however many ranks there are, where a ring's grows with each hop; and the
// ring's bytes.
//
// Covers: chapters/02_collectives/algorithms/pairwise_reduction.hpp
// Covers: common/comm/collectives/schedule_runner.hpp

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

using Values = std::vector<double>;

/// What is added up, and what comes out by both algorithms.
struct Sums {
  Values exact;
  Values once;
  Values by_ring;
  std::size_t once_bytes = 0;  // sent by all ranks
  std::size_t ring_bytes = 0;
};

/// All-reduces, or reduces and scatters, and gathers again.
enum class Way { kAllReduce, kReduceScatter };

class RoundedOnce : public ultra::test::RandomTest {
 protected:
  Sums sums_of(int ranks, DType dtype, std::size_t count, Way way = Way::kAllReduce) {
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
    sums.once = summed(numbers, "pairwise", way, sums.once_bytes);
    sums.by_ring = summed(numbers, "ring", way, sums.ring_bytes);
    return sums;
  }

 private:
  static void reduce(const Communicator& world, const Tensor& data, Way way) {
    if (way == Way::kAllReduce) return world.all_reduce(data).wait();
    const comm::Chunks chunks = comm::Chunks::even({0, data.numel()}, world.size());
    const Tensor own = data.slice(0, chunks[world.rank()]);
    world.reduce_scatter(data, own).wait();
    world.all_gather(own, data).wait();
  }

  static Values summed(const std::vector<Tensor>& numbers, const std::string& algorithm, Way way,
                       std::size_t& bytes) {
    std::vector<std::size_t> sent(numbers.size());
    std::vector<Values> results(numbers.size());
    RankOptions options;
    options.algorithms = std::make_shared<collectives::BookAlgorithms>(collectives::BookOptions{
        .names = {{OpKind::kAllReduce, algorithm}, {OpKind::kReduceScatter, algorithm}},
        .tuning = {}});
    const auto of_rank = [&](Communicator& world) {
      const auto rank = static_cast<std::size_t>(world.rank());
      const Tensor data = numbers[rank].clone();
      reduce(world, data, way);
      results[rank] = cast(data, DType::kF32).to_vector();
      for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather}) {
        sent[rank] += world.stats()[kind].sent_bytes;
      }
    };
    run_ranks(static_cast<int>(numbers.size()), of_rank, options);
    for (const Values& result : results) EXPECT_EQ(result, results.front());
    for (const std::size_t of_rank_bytes : sent) bytes += of_rank_bytes;
    return results.front();
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

TEST_F(RoundedOnce, OnAnyNumberOfRanks) {
  for (const auto& [dtype, rounding] :
       {std::pair{DType::kBF16, 0x1p-9}, std::pair{DType::kF16, 0x1p-12}}) {
    for (const int ranks : {1, 2, 3, 5, 8, 16}) {
      const std::size_t count = random.between(1, 300);
      const Way way = random.pick({Way::kAllReduce, Way::kReduceScatter});
      const Sums sums = sums_of(ranks, dtype, count, way);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(sums.once[i], rounded(sums.exact[i], dtype)) << ranks << " ranks";
        EXPECT_LE(std::abs(sums.once[i] - sums.exact[i]), 2 * rounding * sums.exact[i]);
      }
    }
  }
}

// A hop rounds at half a last place: errors of P - 1 hops add up like steps of a random walk.
TEST_F(RoundedOnce, StaysWhereTheErrorOfARingGrows) {
  Values once;
  Values by_ring;
  for (const int ranks : {2, 4, 8, 16}) {
    const Sums sums = sums_of(ranks, DType::kBF16, 4096);
    once.push_back(error_of(sums.once, sums.exact));
    by_ring.push_back(error_of(sums.by_ring, sums.exact));
    EXPECT_LE(once.back(), 0x1p-8);
    EXPECT_LE(by_ring.back(), (ranks - 1) * 0x1p-8);
  }
  EXPECT_EQ(once.front(), by_ring.front()) << "two ranks: one hop";
  EXPECT_GT(by_ring[2], 1.3 * once[2]);
  EXPECT_GT(by_ring[3], 1.5 * once[3]);
  EXPECT_LT(once[3], 2 * once[0]);
}

TEST_F(RoundedOnce, SendsWhatARingSends) {
  for (const int ranks : {2, 3, 4, 7}) {
    const auto members = static_cast<std::size_t>(ranks);
    const std::size_t count = random.between(1, 200);
    const Sums sums = sums_of(ranks, DType::kBF16, count);
    EXPECT_EQ(sums.once_bytes, 2 * 2 * (members - 1) * count) << ranks << " ranks, " << count;
    EXPECT_EQ(sums.once_bytes, sums.ring_bytes) << ranks << " ranks, " << count;
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
