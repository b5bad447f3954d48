// Covers: common/comm/collectives/native_volume.hpp

#include "common/comm/collectives/collective_call.hpp"

#include "common/comm/collectives/native_volume.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::comm::calls {
namespace {

constexpr Member kMember{.rank = 1, .size = 4};

Tensor floats(const Shape& shape) { return Tensor::zeros(Device::cpu(), shape, DType::kF32); }
Tensor doubles(const Shape& shape) { return Tensor::zeros(Device::cpu(), shape, DType::kF64); }
Tensor integers(const Shape& shape) { return Tensor::zeros(Device::cpu(), shape, DType::kI32); }
Tensor transposed() { return floats({2, 3}).transpose(0, 1); }

/// What a call that does not fit is told.
template <class Fn>
std::string refusal(Fn&& fn) {
  return message_of<ShapeError>([&] { static_cast<void>(fn()); });
}

TEST(CollectiveCall, CountsTheWholeOperation) {
  EXPECT_EQ(gather(floats({3}), Tensor{}, 0, kMember).info.count, 12U);
  EXPECT_EQ(scatter(Tensor{}, floats({3}), 0, kMember).info.count, 12U);
  EXPECT_EQ(all_gather(floats({3}), floats({10}), kMember).info.count, 10U);
  EXPECT_EQ(reduce_scatter(floats({10}), floats({3}), ReduceOp::kSum, kMember).info.count, 10U);
  EXPECT_EQ(all_to_all(floats({8}), floats({8}), kMember).info.count, 8U);
  EXPECT_EQ(barrier(Tensor::zeros(Device::cpu(), {1}, DType::kI32)).info.count, 0U);
}

TEST(CollectiveCall, TheRoleDecidesWhichTensorsMatter) {
  EXPECT_NO_THROW(gather(floats({3}), transposed(), 0, kMember)) << "not the root: not looked at";
  EXPECT_NO_THROW(scatter(doubles({1}), floats({3}), 0, kMember));
}

TEST(CollectiveCall, RefusesTensorsThatAreNotContiguous) {
  const auto said =
      AllOf(HasSubstr("of shape [3, 2] is not contiguous"), HasSubstr("contiguous()"));
  const Tensor bad = transposed();
  const Tensor good = floats({6});
  EXPECT_THAT(refusal([&] { return broadcast(bad, 0, kMember); }), said);
  EXPECT_THAT(refusal([&] { return reduce(bad, 0, ReduceOp::kSum, kMember); }), said);
  EXPECT_THAT(refusal([&] { return all_reduce(bad, ReduceOp::kSum); }), said);
  EXPECT_THAT(refusal([&] { return gather(bad, floats({24}), 1, kMember); }), said);
  EXPECT_THAT(refusal([&] { return scatter(floats({24}), bad, 1, kMember); }), said);
  EXPECT_THAT(refusal([&] { return all_gather(bad, floats({24}), kMember); }), said);
  EXPECT_THAT(refusal([&] { return all_gather(floats({2}), bad, kMember); }), said);
  EXPECT_THAT(refusal([&] { return reduce_scatter(bad, good, ReduceOp::kSum, kMember); }), said);
  EXPECT_THAT(refusal([&] { return all_to_all(bad, good, kMember); }), said);
  EXPECT_THAT(refusal([&] { return all_to_all(good, bad, kMember); }), said);
  EXPECT_THAT(refusal([&] { return message(OpKind::kSend, bad, 0, kMember); }), said);
  EXPECT_THAT(message_of<ShapeError>([&] { expect_shift(bad, good); }), said);
  EXPECT_THAT(message_of<ShapeError>([&] { expect_shift(good, bad); }), said);
}

TEST(CollectiveCall, RefusesUndefinedTensors) {
  const auto said = HasSubstr("is an undefined tensor");
  EXPECT_THAT(refusal([] { return all_reduce(Tensor{}, ReduceOp::kSum); }), said);
  EXPECT_THAT(refusal([] { return broadcast(Tensor{}, 0, kMember); }), said);
  EXPECT_THAT(refusal([] { return gather(floats({2}), Tensor{}, 1, kMember); }),
              AllOf(HasSubstr("gather: 'output'"), said));
  EXPECT_THAT(refusal([] { return scatter(Tensor{}, floats({2}), 1, kMember); }),
              AllOf(HasSubstr("scatter: 'input'"), said));
  EXPECT_THAT(refusal([] { return all_gather(Tensor{}, floats({2}), kMember); }), said);
  EXPECT_THAT(refusal([] { return all_gather(floats({2}), Tensor{}, kMember); }), said);
  EXPECT_THAT(refusal([] { return message(OpKind::kRecv, Tensor{}, 0, kMember); }),
              AllOf(HasSubstr("recv: 'data'"), said));
}

TEST(CollectiveCall, RefusesTwoDTypes) {
  const auto said = [](const std::string& name) {
    return AllOf(HasSubstr(name + ": 'input' is f32, 'output' is f64"), HasSubstr("to()"));
  };
  EXPECT_THAT(refusal([] { return gather(floats({2}), doubles({8}), 1, kMember); }),
              said("gather"));
  EXPECT_THAT(refusal([] { return scatter(floats({8}), doubles({2}), 1, kMember); }),
              said("scatter"));
  EXPECT_THAT(refusal([] { return all_gather(floats({2}), doubles({8}), kMember); }),
              said("all_gather"));
  EXPECT_THAT(
      refusal([] { return reduce_scatter(floats({8}), doubles({2}), ReduceOp::kSum, kMember); }),
      said("reduce_scatter"));
  EXPECT_THAT(refusal([] { return all_to_all(floats({8}), doubles({8}), kMember); }),
              said("all_to_all"));
}

TEST(CollectiveCall, RefusesSizesThatDoNotFit) {
  EXPECT_THAT(
      refusal([] { return gather(floats({2}), floats({7}), 1, kMember); }),
      AllOf(HasSubstr("gather: 'output' has 7 elements, expected 8"), HasSubstr("4 ranks")));
  EXPECT_THAT(refusal([] { return scatter(floats({9}), floats({2}), 1, kMember); }),
              HasSubstr("scatter: 'input' has 9 elements, expected 8"));
  EXPECT_THAT(refusal([] { return all_gather(floats({2}), floats({10}), kMember); }),
              HasSubstr("all_gather: 'input' has 2 elements, expected 3: chunk 1 of 4"));
  EXPECT_THAT(
      refusal([] { return reduce_scatter(floats({10}), floats({10}), ReduceOp::kSum, kMember); }),
      HasSubstr("reduce_scatter: 'output' has 10 elements, expected 3: chunk 1 of 4"));
  EXPECT_THAT(refusal([] { return all_to_all(floats({8}), floats({4}), kMember); }),
              HasSubstr("all_to_all: 'output' has 4 elements, expected 8"));
  EXPECT_THAT(
      refusal([] { return all_to_all(floats({6}), floats({6}), kMember); }),
      AllOf(HasSubstr("6 elements do not divide into 4 equal parts"), HasSubstr("all_to_all_v")));
}

TEST(CollectiveCall, RefusesRowsThatDoNotFit) {
  const std::vector<std::size_t> three{1, 1, 1};
  const std::vector<std::size_t> four{1, 0, 2, 1};
  EXPECT_THAT(refusal([&] {
                return all_to_all_v(floats({3, 2}), three, floats({4, 2}), four, kMember);
              }),
              HasSubstr("all_to_all_v: found 3 counts, expected one for each of the 4 ranks"));
  EXPECT_THAT(refusal([&] {
                return all_to_all_v(floats({4, 2}), four, floats({0, 2}), {}, kMember);
              }),
              HasSubstr("found 0 counts"));
  EXPECT_THAT(refusal([&] {
                return all_to_all_v(floats({4, 2}), four, floats({5, 2}), four, kMember);
              }),
              HasSubstr("all_to_all_v: 'output' has 10 elements, expected 8: the sum of its rows"));
}

TEST(CollectiveCall, RefusesRanksThatDoNotExist) {
  for (const int rank : {-1, 4, 100}) {
    const auto said =
        AllOf(HasSubstr("there is no rank " + std::to_string(rank) + " in"), HasSubstr("0 to 3"));
    EXPECT_THAT(refusal([&] { return broadcast(floats({2}), rank, kMember); }), said);
    EXPECT_THAT(refusal([&] { return reduce(floats({2}), rank, ReduceOp::kSum, kMember); }), said);
    EXPECT_THAT(refusal([&] { return gather(floats({2}), floats({8}), rank, kMember); }), said);
    EXPECT_THAT(refusal([&] { return scatter(floats({8}), floats({2}), rank, kMember); }), said);
    EXPECT_THAT(refusal([&] { return message(OpKind::kSend, floats({2}), rank, kMember); }), said);
    EXPECT_THAT(refusal([&] { return message(OpKind::kRecv, floats({2}), rank, kMember); }), said);
  }
}

TEST(CollectiveCall, RefusesAnAverageOfIntegers) {
  const auto said = [](const std::string& name) {
    return AllOf(HasSubstr(name + ": an average of i32 is not exact"), HasSubstr("sum and divide"));
  };
  EXPECT_THAT(refusal([] { return all_reduce(integers({2}), ReduceOp::kAverage); }),
              said("all_reduce"));
  EXPECT_THAT(refusal([] { return reduce(integers({2}), 0, ReduceOp::kAverage, kMember); }),
              said("reduce"));
  EXPECT_THAT(refusal([] {
                return reduce_scatter(integers({8}), integers({2}), ReduceOp::kAverage, kMember);
              }),
              said("reduce_scatter"));
  EXPECT_NO_THROW(all_reduce(integers({2}), ReduceOp::kSum));
}

TEST(CollectiveCall, RefusesAnotherPieceThanTheOwnChunk) {
  const Tensor whole = floats({8});
  const Tensor other = whole.slice(0, {4, 6});
  const Tensor shifted = whole.slice(0, {1, 3});
  for (const Tensor& part : {other, shifted}) {
    const auto said = HasSubstr("is not its chunk 1, which is [2, 4)");
    EXPECT_THAT(refusal([&] { return all_gather(part, whole, kMember); }), said);
    EXPECT_THAT(refusal([&] { return reduce_scatter(whole, part, ReduceOp::kSum, kMember); }),
                said);
    EXPECT_THAT(refusal([&] { return gather(part, whole, 1, kMember); }), said);
    EXPECT_THAT(refusal([&] { return scatter(whole, part, 1, kMember); }), said);
  }
}

TEST(CollectiveCall, SomeOperationsDoNotWorkInPlace) {
  const Tensor whole = floats({8});
  const auto said = AllOf(HasSubstr("memory in common"), HasSubstr("in place"));
  EXPECT_THAT(refusal([&] { return all_to_all(whole, whole, kMember); }), said);
  const std::vector<std::size_t> rows{2, 2, 2, 2};
  EXPECT_THAT(refusal([&] { return all_to_all_v(whole, rows, whole, rows, kMember); }), said);
  EXPECT_THAT(message_of<ShapeError>([&] { expect_shift(whole, whole); }), said);
}

TEST(CollectiveCall, RefusesChannelsThatDoNotExist) {
  EXPECT_NO_THROW(expect_channel(OpKind::kSend, 0));
  EXPECT_NO_THROW(expect_channel(OpKind::kRecv, 30));
  for (const int channel : {-1, 31, 32, 1000}) {
    const auto text = message_of<ConfigError>([&] { expect_channel(OpKind::kRecv, channel); });
    EXPECT_THAT(text, HasSubstr("recv: there is no channel " + std::to_string(channel)));
    EXPECT_THAT(text, HasSubstr("0 to 30"));
  }
}

}  // namespace
}  // namespace ultra::comm::calls

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
