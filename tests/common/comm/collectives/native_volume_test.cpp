#include "common/comm/collectives/native_volume.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "common/comm/collectives/collective_call.hpp"
#include "tests/support/random.hpp"

namespace ultra::comm {
namespace {

constexpr std::size_t kWidth = 8;  // bytes of an f64

class NativeVolume : public test::RandomTest {
 protected:
  Tensor elements(std::size_t count) const {
    return Tensor::zeros(Device::cpu(), {count}, DType::kF64);
  }

  /// Elements that each rank sends in the call that `make` writes down for it.
  template <class Make>
  std::vector<std::size_t> sent(Make&& make) const {
    std::vector<std::size_t> counts;
    for (int rank = 0; rank < size; ++rank) {
      const CollectiveCall call = make(calls::Member{.rank = rank, .size = size});
      const std::size_t bytes = native_sent_bytes(call, rank, size);
      EXPECT_EQ(bytes % kWidth, 0U);
      counts.push_back(bytes / kWidth);
    }
    return counts;
  }

  std::size_t chunk(int rank) const { return Chunks::even({0, n}, size)[rank].size(); }

  /// By rank: fn(rank).
  template <class Fn>
  std::vector<std::size_t> by_rank(Fn&& fn) const {
    std::vector<std::size_t> values;
    for (int rank = 0; rank < size; ++rank) values.push_back(std::size_t{fn(rank)});
    return values;
  }

  int size = static_cast<int>(random.between(1, 9));
  std::size_t p = static_cast<std::size_t>(size);
  std::size_t n = random.between(0, 500);
  int root = static_cast<int>(random.between(0, p - 1));
};

TEST_F(NativeVolume, OfAllReduceIsTwiceThatOfItsHalves) {
  const auto all_reduce =
      sent([&](calls::Member) { return calls::all_reduce(elements(n), ReduceOp::kSum); });
  EXPECT_EQ(all_reduce, by_rank([&](int r) { return n - chunk(r) + (p - 1) * chunk(r); }));
  const auto reduce_scatter = sent([&](calls::Member m) {
    return calls::reduce_scatter(elements(n), elements(chunk(m.rank)), ReduceOp::kSum, m);
  });
  EXPECT_EQ(reduce_scatter, by_rank([&](int r) { return n - chunk(r); }));
  const auto all_gather = sent(
      [&](calls::Member m) { return calls::all_gather(elements(chunk(m.rank)), elements(n), m); });
  EXPECT_EQ(all_gather, by_rank([&](int r) { return (p - 1) * chunk(r); }));
}

TEST_F(NativeVolume, OfAllReduceIsPatarasuksWhenTheSizeDivides) {
  n = 12 * p;
  const auto all_reduce =
      sent([&](calls::Member) { return calls::all_reduce(elements(n), ReduceOp::kSum); });
  EXPECT_EQ(all_reduce, by_rank([&](int) { return 2 * n * (p - 1) / p; }));
}

TEST_F(NativeVolume, OfBroadcastComesFromTheRoot) {
  EXPECT_EQ(sent([&](calls::Member m) { return calls::broadcast(elements(n), root, m); }),
            by_rank([&](int r) { return r == root ? (p - 1) * n : 0; }));
}

TEST_F(NativeVolume, OfReduceIsLessByItsShareAtTheRoot) {
  const auto reduce =
      sent([&](calls::Member m) { return calls::reduce(elements(n), root, ReduceOp::kSum, m); });
  EXPECT_EQ(reduce, by_rank([&](int r) { return r == root ? n - chunk(r) : n; }));
}

TEST_F(NativeVolume, OfGatherAndScatterIsWhatTheOthersHave) {
  const auto gather = sent([&](calls::Member m) {
    return calls::gather(elements(n), m.rank == root ? elements(n * p) : Tensor{}, root, m);
  });
  EXPECT_EQ(gather, by_rank([&](int r) { return r == root ? 0 : n; }));
  const auto scatter = sent([&](calls::Member m) {
    return calls::scatter(m.rank == root ? elements(n * p) : Tensor{}, elements(n), root, m);
  });
  EXPECT_EQ(scatter, by_rank([&](int r) { return r == root ? (p - 1) * n : 0; }));
}

TEST_F(NativeVolume, OfAllToAllIsAllButTheOwnPart) {
  const auto all_to_all =
      sent([&](calls::Member m) { return calls::all_to_all(elements(n * p), elements(n * p), m); });
  EXPECT_EQ(all_to_all, by_rank([&](int) { return n * (p - 1); }));
  // Rank r sends r + to rows to rank `to`.
  const auto rows = [&](int r, bool sends) {
    std::vector<std::size_t> result;
    for (int peer = 0; peer < size; ++peer) {
      result.push_back(static_cast<std::size_t>(sends ? r + 2 * peer : peer + 2 * r));
    }
    return result;
  };
  const auto total = [](const std::vector<std::size_t>& counts) {
    return Chunks::of(counts).whole().size();
  };
  const auto uneven = sent([&](calls::Member m) {
    const auto out = rows(m.rank, true);
    const auto in = rows(m.rank, false);
    return calls::all_to_all_v(elements(total(out)), out, elements(total(in)), in, m);
  });
  EXPECT_EQ(uneven,
            by_rank([&](int r) { return total(rows(r, true)) - static_cast<std::size_t>(3 * r); }));
}

TEST_F(NativeVolume, OfABarrierIsNothing) {
  EXPECT_EQ(sent([&](calls::Member) { return calls::barrier(elements(1)); }),
            by_rank([](int) { return std::size_t{0}; }));
}

}  // namespace
}  // namespace ultra::comm
