// Covers: common/comm/communicator.hpp
// Covers: common/comm/engine/group_state.hpp
// Every operation, carried out by the platform's own collectives and by schedules, against sums of
// integers that are worked out here.

#include "common/comm/communicator.hpp"
#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

constexpr int kWorldSizes[] = {1, 2, 3, 4, 5, 8};
constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kI32, DType::kBF16, DType::kF16};

/// Element i of rank r: small integers, so that every sum is exact in every dtype (bf16 has those up
/// to 256).
double element(int rank, std::size_t i) {
  return static_cast<double>((i * 7 + static_cast<std::size_t>(rank) * 13) % 31) - 10.0;
}

Tensor tensor_of(const std::vector<double>& values, DType dtype) {
  if (dtype == DType::kI32) {
    std::vector<std::int32_t> integers;
    for (const double value : values) integers.push_back(static_cast<std::int32_t>(value));
    return Tensor::from<std::int32_t>(own_device(), {values.size()}, integers);
  }
  return Tensor::from<double>(own_device(), {values.size()}, values).to(dtype);
}

std::vector<double> elements_of(int rank, Range range) {
  std::vector<double> values;
  for (std::size_t i = range.begin; i < range.end; ++i) values.push_back(element(rank, i));
  return values;
}

/// The elements of all ranks, one rank behind the other.
std::vector<double> elements_of_all(const Communicator& world, Range range) {
  std::vector<double> values;
  for (int rank = 0; rank < world.size(); ++rank) {
    for (std::size_t i = range.begin; i < range.end; ++i) values.push_back(element(rank, i));
  }
  return values;
}

Tensor contribution(int rank, std::size_t count, DType dtype) {
  return tensor_of(elements_of(rank, {0, count}), dtype);
}

std::vector<double> reduced(int world_size, Range range, ReduceOp op) {
  std::vector<double> result;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    double value = element(0, i);
    for (int rank = 1; rank < world_size; ++rank) {
      const double other = element(rank, i);
      value = op == ReduceOp::kMax   ? std::max(value, other)
              : op == ReduceOp::kMin ? std::min(value, other)
                                     : value + other;
    }
    result.push_back(op == ReduceOp::kAverage ? value / world_size : value);
  }
  return result;
}

/// The same tests for the platform's own collectives and for schedules, checked and unchecked.
class CommunicatorRanks : public OptionsRanks {
 protected:
  CommunicatorRanks() : OptionsRanks(std::chrono::seconds(30)) {}

  std::size_t draw_count(int world_size) {
    const auto p = static_cast<std::size_t>(world_size);
    return random.pick<std::size_t>({0, 1, p - 1, p, 4 * p, 101, random.between(1, 3000)});
  }

  template <class Body>
  void on_all_sizes(Body&& body) {
    for (const int size : kWorldSizes) ranks_with(options, size, body);
  }

  /// Calls `body` with every world size and dtype and a random count.
  template <class Body>
  void sweep(Body&& body) {
    for (const int size : kWorldSizes) {
      for (const DType dtype : kDTypes) {
        const std::size_t count = draw_count(size);
        SCOPED_TRACE(fmt::format("{} ranks, {} {}", size, count, to_string(dtype)));
        ranks_with(options, size, [&](Communicator& world) { body(world, count, dtype); });
      }
    }
  }
};

TEST_P(CommunicatorRanks, AllReduceCombinesInPlace) {
  sweep([&](Communicator& world, std::size_t count, DType dtype) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAverage}) {
      if (op == ReduceOp::kAverage && dtype != DType::kF64) continue;  // others round
      const Tensor data = contribution(world.rank(), count, dtype);
      world.all_reduce(data, op).wait();
      EXPECT_EQ(data.to_vector(), reduced(world.size(), {0, count}, op)) << to_string(op);
    }
  });
}

TEST_P(CommunicatorRanks, BroadcastCopiesTheRoot) {
  sweep([&, draw = random.between(0, 100)](Communicator& world, std::size_t count, DType dtype) {
    const int root = static_cast<int>(draw) % world.size();
    const Tensor data = contribution(world.rank(), count, dtype);
    world.broadcast(data, root).wait();
    EXPECT_EQ(data.to_vector(), elements_of(root, {0, count}));
  });
}

TEST_P(CommunicatorRanks, ReduceLeavesTheOthersAlone) {
  sweep([&, draw = random.between(0, 100)](Communicator& world, std::size_t count, DType dtype) {
    const int root = static_cast<int>(draw) % world.size();
    const Tensor data = contribution(world.rank(), count, dtype);
    world.reduce(data, root).wait();
    EXPECT_EQ(data.to_vector(), world.rank() == root
                                    ? reduced(world.size(), {0, count}, ReduceOp::kSum)
                                    : elements_of(world.rank(), {0, count}));
  });
}

TEST_P(CommunicatorRanks, GatherAndScatterAreEachOthersOpposite) {
  sweep([&, draw = random.between(0, 100)](Communicator& world, std::size_t count, DType dtype) {
    const int root = static_cast<int>(draw) % world.size();
    const bool is_root = world.rank() == root;
    const Tensor mine = contribution(world.rank(), count, dtype);
    const auto p = static_cast<std::size_t>(world.size());
    const Tensor all = is_root ? Tensor::zeros(mine.device(), {p, count}, dtype) : Tensor{};
    world.gather(mine, all, root).wait();
    if (is_root) {
      EXPECT_EQ(all.to_vector(), elements_of_all(world, {0, count}));
    }
    const Tensor back = Tensor::zeros(mine.device(), {count}, dtype);
    world.scatter(all, back, root).wait();
    EXPECT_EQ(back.to_vector(), mine.to_vector());
  });
}

TEST_P(CommunicatorRanks, AllGatherFillsEveryChunk) {
  sweep([&](Communicator& world, std::size_t count, DType dtype) {
    const Range own = comm::Chunks::even({0, count}, world.size())[world.rank()];
    const Tensor mine = tensor_of(elements_of(3, own), dtype);
    const Tensor all = Tensor::zeros(mine.device(), {count}, dtype);
    world.all_gather(mine, all).wait();
    EXPECT_EQ(all.to_vector(), elements_of(3, {0, count}));
    const Tensor in_place = Tensor::zeros(mine.device(), {count}, dtype);
    in_place.slice(0, own).copy_from(mine);
    world.all_gather(in_place.slice(0, own), in_place).wait();
    EXPECT_EQ(in_place.to_vector(), elements_of(3, {0, count}));
  });
}

TEST_P(CommunicatorRanks, ReduceScatterGivesEachItsChunk) {
  sweep([&](Communicator& world, std::size_t count, DType dtype) {
    const Range own = comm::Chunks::even({0, count}, world.size())[world.rank()];
    // Pieces of one buffer, as gradient buckets are.
    const Tensor buffer = Tensor::zeros(own_device(), {count + own.size()}, dtype);
    const Tensor input = buffer.slice(0, {0, count});
    const Tensor output = buffer.slice(0, {count, count + own.size()});
    input.copy_from(contribution(world.rank(), count, dtype));
    world.reduce_scatter(input, output).wait();
    EXPECT_EQ(output.to_vector(), reduced(world.size(), own, ReduceOp::kSum));
    EXPECT_EQ(input.to_vector(), elements_of(world.rank(), {0, count})) << "the input must stay";
    world.reduce_scatter(input, input.slice(0, own)).wait();
    EXPECT_EQ(input.slice(0, own).to_vector(), reduced(world.size(), own, ReduceOp::kSum));
  });
}

TEST_P(CommunicatorRanks, AllToAllTransposesThePartsOfTheRanks) {
  sweep([&](Communicator& world, std::size_t count, DType dtype) {
    const auto p = static_cast<std::size_t>(world.size());
    const std::size_t part = count / p;
    const Tensor input = contribution(world.rank(), part * p, dtype);
    const Tensor output = Tensor::zeros(input.device(), {part * p}, dtype);
    world.all_to_all(input, output).wait();
    const auto own = static_cast<std::size_t>(world.rank()) * part;
    EXPECT_EQ(output.to_vector(), elements_of_all(world, {own, own + part}));
  });
}

/// Rows that rank `from` sends to rank `to`: unequal, some of them none.
std::size_t rows_between(int from, int to) { return static_cast<std::size_t>(from * 2 + to) % 4; }

TEST_P(CommunicatorRanks, AllToAllTakesUnequalRows) {
  sweep([&](Communicator& world, std::size_t count, DType dtype) {
    const std::size_t width = 1 + count % 5;
    std::vector<std::size_t> send_rows;
    std::vector<std::size_t> receive_rows;
    std::vector<double> sent;
    std::vector<double> expected;
    const auto rows = [&](int from, int to) {
      std::vector<double> values(rows_between(from, to) * width);
      std::iota(values.begin(), values.end(), from * 100 + to * 10);
      return values;
    };
    for (int peer = 0; peer < world.size(); ++peer) {
      send_rows.push_back(rows_between(world.rank(), peer));
      receive_rows.push_back(rows_between(peer, world.rank()));
      for (const double value : rows(world.rank(), peer)) sent.push_back(value);
      for (const double value : rows(peer, world.rank())) expected.push_back(value);
    }
    const Tensor input = tensor_of(sent, dtype).view({sent.size() / width, width});
    const Tensor output = Tensor::zeros(input.device(), {expected.size() / width, width}, dtype);
    world.all_to_all_v(input, send_rows, output, receive_rows).wait();
    EXPECT_EQ(output.to_vector(), tensor_of(expected, dtype).to_vector());
  });
}

TEST_P(CommunicatorRanks, MessagesArriveInOrderOnEachChannel) {
  on_all_sizes([&](Communicator& world) {
    const Tensor first = contribution(world.rank(), 5, DType::kF32);
    const Tensor second = contribution(world.rank() + 50, 5, DType::kF32);
    const Tensor other = contribution(world.rank() + 90, 2, DType::kF32);
    std::vector<Work> sends;
    sends.push_back(world.send(other, world.next_rank(), 4));
    sends.push_back(world.send(first, world.next_rank()));
    sends.push_back(world.send(second, world.next_rank()));
    const int from = world.prev_rank();
    const Tensor got = Tensor::zeros(first.device(), {5}, DType::kF32);
    world.recv(got, from).wait();
    EXPECT_EQ(got.to_vector(), elements_of(from, {0, 5}));
    world.recv(got, from).wait();
    EXPECT_EQ(got.to_vector(), elements_of(from + 50, {0, 5}));
    const Tensor small = Tensor::zeros(first.device(), {2}, DType::kF32);
    world.recv(small, from, 4).wait();
    EXPECT_EQ(small.to_vector(), elements_of(from + 90, {0, 2}));
    for (Work& send : sends) send.wait();
  });
}

TEST_P(CommunicatorRanks, RingShiftMovesByAnyDistance) {
  const std::size_t count = random.between(1, 200);
  on_all_sizes([&](Communicator& world) {
    for (const int distance : {1, -1, 2, world.size()}) {
      const Tensor mine = contribution(world.rank(), count, DType::kF64);
      const Tensor got = Tensor::zeros(mine.device(), {count}, DType::kF64);
      world.ring_shift(mine, got, distance).wait();
      const int from = ((world.rank() - distance) % world.size() + world.size()) % world.size();
      EXPECT_EQ(got.to_vector(), elements_of(from, {0, count})) << "distance " << distance;
    }
  });
}

TEST_P(CommunicatorRanks, OperationsIssuedWithoutWaitingRunInOrder) {
  const std::size_t count = random.between(1, 5000);
  on_all_sizes([&](Communicator& world) {
    const Tensor data = contribution(world.rank(), count, DType::kF64);
    Work first = world.all_reduce(data);
    Work second = world.all_reduce(data);  // of the first one's result
    second.wait();
    EXPECT_TRUE(first.done());
    std::vector<double> expected = reduced(world.size(), {0, count}, ReduceOp::kSum);
    for (double& value : expected) value *= world.size();
    EXPECT_EQ(data.to_vector(), expected);
  });
}

TEST_P(CommunicatorRanks, SplitGroupsByARuleInTheOrderOfTheRanks) {
  ranks_with(options, 6, [&](Communicator& world) {
    const int color = world.rank() % 2;
    const Communicator half = world.split([](int rank) { return 7 - rank % 2; }, "half");
    EXPECT_EQ(half.size(), 3);
    EXPECT_EQ(half.name(), "half");
    EXPECT_EQ(half.rank(), world.rank() / 2);
    EXPECT_EQ(half.world_rank(2), 4 + color);
    const Tensor data = contribution(world.rank(), 10, DType::kF64);
    Work whole = world.all_reduce(contribution(world.rank(), 10, DType::kF64));
    half.all_reduce(data).wait();
    whole.wait();
    std::vector<double> expected(10);
    for (std::size_t i = 0; i < 10; ++i) {
      for (int rank = color; rank < 6; rank += 2) expected[i] += element(rank, i);
    }
    EXPECT_EQ(data.to_vector(), expected);
    const Communicator alone = half.split(std::identity(), "alone");
    EXPECT_EQ(alone.size(), 1);
    alone.all_reduce(data).wait();
    EXPECT_EQ(data.to_vector(), expected);
  });
}

TEST_P(CommunicatorRanks, TwoGroupsAtOnceDoNotMixMessages) {
  const std::size_t count = random.between(1, 4000);
  ranks_with(options, 4, [&](Communicator& world) {
    const Communicator rows = world.split([](int rank) { return rank / 2; }, "rows");
    const Communicator columns = world.split([](int rank) { return rank % 2; }, "columns");
    const Tensor a = contribution(world.rank(), count, DType::kF64);
    const Tensor b = contribution(world.rank(), count, DType::kF64);
    // Half of the ranks begin with the other group: no order between groups is demanded.
    Work first = world.rank() < 2 ? rows.all_reduce(a) : columns.all_reduce(b);
    Work second = world.rank() < 2 ? columns.all_reduce(b) : rows.all_reduce(a);
    first.wait();
    second.wait();
    const int row = world.rank() / 2 * 2;
    const int column = world.rank() % 2;
    const std::vector<double> of_row = a.to_vector();
    const std::vector<double> of_column = b.to_vector();
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(of_row[i], element(row, i) + element(row + 1, i));
      EXPECT_EQ(of_column[i], element(column, i) + element(column + 2, i));
    }
  });
}

TEST_P(CommunicatorRanks, BarrierReturnsWhenAllHaveCome) {
  std::atomic<int> arrived{0};
  ranks_with(options, 4, [&](Communicator& world) {
    for (int round = 1; round <= 20; ++round) {
      arrived.fetch_add(1);
      world.barrier().wait();
      EXPECT_GE(arrived.load(), launched_world_size() ? round : 4 * round);
    }
  });
}

TEST_P(CommunicatorRanks, AllRanksEndBitwiseEqual) {
  const std::size_t count = random.between(1, 4000);
  on_all_sizes([&](Communicator& world) {
    test::Random draws(seed + static_cast<std::uint64_t>(world.rank()));
    const Tensor data = draws.tensor(own_device(), {count}, DType::kF32);
    world.all_reduce(data).wait();
    const Tensor lowest = data.clone();
    const Tensor highest = data.clone();
    world.all_reduce(lowest, ReduceOp::kMin).wait();
    world.all_reduce(highest, ReduceOp::kMax).wait();
    EXPECT_EQ(lowest.to_vector(), highest.to_vector());
  });
}

/// What an observer is told, one text for each operation.
class LabelLog : public CommObserver {
 public:
  void operation_ended(const OperationInfo& info, std::size_t, Clock::time_point,
                       Clock::time_point) override {
    lines.push_back(fmt::format("{} {}: {}", to_string(info.kind), info.communicator, info.label));
  }
  void waited(const OperationInfo&, Clock::time_point, Clock::time_point) override {}

  std::vector<std::string> lines;
};

TEST_P(CommunicatorRanks, AHandlesLabelIsOnWhatItIssues) {
  ranks_with(options, 2, [&](Communicator& world) {
    LabelLog log;
    const Communicator bucket = world.labeled("bucket 2");
    const Communicator pair = bucket.split([](int) { return 0; }, "pair");
    world.set_observer(&log);
    const Tensor data = contribution(world.rank(), 5, DType::kF32);
    bucket.all_reduce(data).wait();
    if (world.rank() == 0) bucket.send(data, 1).wait();
    if (world.rank() == 1) bucket.recv(data, 0).wait();
    bucket.ring_shift(data, data.clone()).wait();
    bucket.with_algorithms(options.algorithms).barrier().wait();
    pair.barrier().wait();
    bucket.labeled("bucket 3").barrier().wait();
    world.barrier().wait();
    world.set_observer(nullptr);
    EXPECT_EQ(log.lines, (std::vector<std::string>{
                             "all_reduce world: bucket 2",
                             world.rank() == 0 ? "send world: bucket 2" : "recv world: bucket 2",
                             "send world: bucket 2", "barrier world: bucket 2",
                             "barrier pair: ", "barrier world: bucket 3", "barrier world: "}));
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, CommunicatorRanks, backends(), backend_name);

}  // namespace
}  // namespace ultra
