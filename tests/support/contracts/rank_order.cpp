#include "tests/support/contracts/rank_order.hpp"

#include <bit>
#include <cstring>
#include <type_traits>

#include "common/comm/collectives/schedule.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::test {
namespace {

using comm::Chunks;

/// A number that some sums round, because magnitudes differ; zeros of both signs among them.
template <class T>
T draw(Random& random) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random.between(0, 2000)) - 1000;
  } else {
    const int exponent = static_cast<int>(random.between(0, 16)) - 8;
    const double zero = random.pick({0.0, -0.0});
    return static_cast<T>(random.between(0, 9) == 0 ? zero : std::ldexp(random.normal(), exponent));
  }
}

template <class T>
T combined(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kMax:
      return a < b ? b : a;
    case ReduceOp::kMin:
      return b < a ? b : a;
    default:
      return a + b;
  }
}

/// x_0 to x_{n-1} in one order.
template <class T>
T combined(ReduceOp op, std::span<const T> x, RankOrder order) {
  if (x.size() == 1) return x.front();
  // All but the last one; or the largest power of two of ranks that leaves others.
  const std::size_t left =
      order == RankOrder::kOneByOne ? x.size() - 1 : std::bit_ceil(x.size()) / 2;
  return combined(op, combined(op, x.first(left), order), combined(op, x.subspan(left), order));
}

/// `parts` chunks of [0, count), cut at random places.
Chunks random_cuts(Random& random, std::size_t count, int parts) {
  std::vector<std::size_t> counts;
  for (std::size_t left = count; parts > 0; --parts) {
    counts.push_back(parts == 1 ? left : random.between(0, left));
    left -= counts.back();
  }
  return Chunks::of(counts);
}

/// The same numbers on all ranks, and what becomes of them on one.
template <class T>
class OrderTrial {
 public:
  OrderTrial(Random& random, int size, std::size_t count, DType dtype, RankOrder order)
      : dtype_(dtype),
        order_(order),
        pieces_(random_cuts(random, count, 3)),
        chunks_(Chunks::even({0, count}, size)) {
    for (int r = 0; r < size; ++r) {
      std::vector<T>& mine = inputs_.emplace_back();
      for (std::size_t i = 0; i < count; ++i) mine.push_back(draw<T>(random));
    }
  }

  /// What is wrong with this rank's results; empty when nothing is.
  std::string run(const Communicator& world) const {
    std::string fault;
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMax, ReduceOp::kMin}) {
      if (op == ReduceOp::kAverage && dtype_ == DType::kI32) continue;
      const std::vector<T> expected = expected_of(op);
      const Tensor whole = input(world);
      world.all_reduce(whole, op).wait();
      fault += compare(world, op, "all_reduce", whole, expected);

      const Tensor cut = input(world);
      for (int i = 0; i < pieces_.size(); ++i)
        world.all_reduce(cut.slice(0, pieces_[i]), op).wait();
      fault += compare(world, op, "all_reduce in pieces", cut, expected);

      const Range own = chunks_[world.rank()];
      const std::vector<T> mine(expected.data() + own.begin, expected.data() + own.end);
      const Tensor apart = Tensor::empty(device_, {own.size()}, dtype_);
      world.reduce_scatter(input(world), apart, op).wait();
      fault += compare(world, op, "reduce_scatter", apart, mine);
      const Tensor all = input(world);
      world.reduce_scatter(all, all.slice(0, own), op).wait();
      fault += compare(world, op, "reduce_scatter in place", all.slice(0, own), mine);
    }
    return fault;
  }

 private:
  Tensor input(const Communicator& world) const {
    const std::vector<T>& mine = inputs_[static_cast<std::size_t>(world.rank())];
    return Tensor::from<T>(device_, {mine.size()}, mine);
  }

  std::vector<T> expected_of(ReduceOp op) const {
    std::vector<T> result(inputs_.front().size());
    for (std::size_t i = 0; i < result.size(); ++i) {
      std::vector<T> of_ranks;
      for (const std::vector<T>& input : inputs_) of_ranks.push_back(input[i]);
      result[i] = combined(op, std::span<const T>(of_ranks), order_);
      if (op == ReduceOp::kAverage) result[i] /= static_cast<T>(inputs_.size());
    }
    return result;
  }

  static std::string compare(const Communicator& world, ReduceOp op, const char* what,
                             const Tensor& found, const std::vector<T>& expected) {
    const std::span<T> values = found.span<T>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::memcmp(&values[i], &expected[i], sizeof(T)) == 0) continue;
      return fmt::format("rank {} of {}, {} ({}): element {} of {} is {}, expected {}\n",
                         world.rank(), world.size(), what, to_string(op), i, expected.size(),
                         values[i], expected[i]);
    }
    return "";
  }

  Device device_ = Device::cpu();
  DType dtype_;
  RankOrder order_;
  Chunks pieces_;
  Chunks chunks_;
  std::vector<std::vector<T>> inputs_;  // by rank
};

template <class T>
std::string faults_of(const RankOptions& options, int size, std::size_t count, DType dtype,
                      Random& random, RankOrder order) {
  const OrderTrial<T> trial(random, size, count, dtype, order);
  std::vector<std::string> faults(static_cast<std::size_t>(size));
  run_ranks(
      size,
      [&](Communicator& world) {
        faults[static_cast<std::size_t>(world.rank())] = trial.run(world);
      },
      options);
  std::string all;
  for (const std::string& fault : faults) all += fault;
  return all;
}

}  // namespace

::testing::AssertionResult reduces_in_rank_order(
    std::shared_ptr<const comm::CollectiveAlgorithms> algorithms, int size, std::size_t count,
    DType dtype, Random& random, RankOrder order) {
  RankOptions options;
  options.timeout = std::chrono::seconds(20);
  options.algorithms = std::move(algorithms);
  const auto run = dtype == DType::kF32   ? faults_of<float>
                   : dtype == DType::kF64 ? faults_of<double>
                                          : faults_of<std::int32_t>;
  const std::string faults = run(options, size, count, dtype, random, order);
  if (faults.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << faults;
}

}  // namespace ultra::test
