// Covers: common/comm/backend/meta/meta_world.hpp
//
// A world of one rank against worlds in which all ranks are there: what they count, what they send,
// whom they meet; and against the order in which things were called.

#include "common/comm/backend/meta/meta_world.hpp"

#include <map>
#include <tuple>

#include "common/comm/collectives/schedule.hpp"
#include "common/gpu/meta/tape.hpp"
#include "common/gpu/order_checker.hpp"
#include "tests/common/comm/comm_test.hpp"
#include "tests/support/drawn_program.hpp"

namespace ultra {
namespace {

using gpu::EntryKind;
using gpu::EventId;
using gpu::StreamRole;
using gpu::Tape;
using test::DrawnProgram;
using test::Line;

constexpr int kRanks = 8;

std::vector<CommStats::PerKind> figures(const CommStats& stats) {
  return {stats.kinds.begin(), stats.kinds.end()};
}

/// Every collective that a rank has done, in words, in any order.
class Collectives : public CommObserver {
 public:
  void operation_ended(const OperationInfo& info, std::size_t sent_bytes, Clock::time_point,
                       Clock::time_point) override {
    if (info.kind == OpKind::kSend || info.kind == OpKind::kRecv) return;
    lines.push_back(fmt::format("{} of {} [{}] #{}: sends {}", to_string(info.kind),
                                info.communicator, info.label, info.sequence, sent_bytes));
    if (info.kind != OpKind::kAllToAll) {  // of unequal parts nobody knows the whole
      lines.back() += fmt::format(" of {}", info.count * size_of(info.dtype));
    }
  }
  void waited(const OperationInfo&, Clock::time_point, Clock::time_point) override {}

  std::vector<std::string> lines;
};

std::string in_words(const Tape& tape, const gpu::TapedExchange& exchange) {
  const auto kind = static_cast<OpKind>(exchange.kind);
  std::string text =
      fmt::format("{} of {} [{}] #{}: sends {}", to_string(kind), tape.groups[exchange.group].name,
                  tape.names[exchange.label], exchange.sequence, exchange.sent_bytes);
  if (kind != OpKind::kAllToAll) text += fmt::format(" of {}", exchange.bytes);
  return text;
}

/// What one rank has taken part in.
struct Record {
  Tape tape;
  CommStats stats;
};

/// The ranks of a mesh that agree with `rank` along all axes but these.
std::vector<int> members_along(const MeshShape& shape, int rank,
                               const std::vector<std::string_view>& axes) {
  std::vector<int> members;
  for (int other = 0; other < shape.world_size(); ++other) {
    const bool agrees = std::ranges::all_of(shape.axes(), [&](const Axis& axis) {
      return std::ranges::find(axes, axis.name) != axes.end() ||
             shape.position(rank, axis.name) == shape.position(other, axis.name);
    });
    if (agrees) members.push_back(other);
  }
  return members;
}

/// That the entries from `before` on are the line's own, and name its group.
void expect_line(const Tape& tape, std::size_t before, const Line& line,
                 const std::vector<int>& members) {
  using Call = Line::Call;
  std::vector<std::uint32_t> groups;
  std::vector<gpu::ExchangeKind> kinds;
  std::vector<bool> sends;
  for (std::size_t i = before; i < tape.entries.size(); ++i) {
    const gpu::Entry& entry = tape.entries[i];
    if (entry.kind == EntryKind::kExchange) {
      groups.push_back(tape.exchanges[entry.index].group);
      kinds.push_back(tape.exchanges[entry.index].kind);
    } else if (entry.kind == EntryKind::kMessage) {
      groups.push_back(tape.messages[entry.index].group);
      sends.push_back(tape.messages[entry.index].sends);
    }
  }
  for (const std::uint32_t group : groups) EXPECT_EQ(tape.groups[group].members, members);
  if (line.call >= Call::kSendOn) {
    EXPECT_THAT(kinds, IsEmpty());
    EXPECT_EQ(sends, (std::vector<bool>{true, false}));
    return;
  }
  EXPECT_THAT(sends, IsEmpty());
  // The kinds of both have one order, but that parts may be unequal.
  const auto kind = static_cast<int>(line.call) - (line.call >= Call::kAllToAllRows ? 1 : 0);
  EXPECT_THAT(kinds, ElementsAre(static_cast<gpu::ExchangeKind>(kind)));
}

class MetaWorld : public test::RandomTest,
                  public ::testing::WithParamInterface<std::tuple<bool, bool>> {
 protected:
  /// One rank's part of a program.
  void record(const DrawnProgram& program, int rank, Record& into) const {
    Tape& tape = into.tape;
    tape.run(true);
    const Communicator world = comm::meta_world(rank, kRanks, tape).with_algorithms(algorithms);
    const Device of_rank = on_device ? Device::meta(tape, rank, true) : Device::cpu();
    std::size_t before = tape.entries.size();
    test::run_program(program, world, of_rank, [&](std::size_t i) {
      SCOPED_TRACE(fmt::format("rank {}, line {}", rank, i));
      const Line& line = program.lines[i];
      expect_line(tape, before, line, members_along(program.shape, rank, line.axes));
      before = tape.entries.size();
    });
    into.stats = world.stats();
  }

  bool on_device = std::get<0>(GetParam());
  std::shared_ptr<const comm::CollectiveAlgorithms> algorithms =
      std::get<1>(GetParam()) ? std::make_shared<const test::StarAlgorithms>() : nullptr;
};

TEST_P(MetaWorld, EveryRankCountsAndSendsWhatItDoesAmongAllTheOthers) {
  for (int round = 0; round < 5; ++round) {
    const DrawnProgram program = test::draw_program(random, 60);
    SCOPED_TRACE(program.shape.str());
    std::vector<Record> records(kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      record(program, rank, records[static_cast<std::size_t>(rank)]);
    }
    RankOptions options;
    options.algorithms = algorithms;
    run_ranks(
        kRanks,
        [&](Communicator& world) {
          Collectives real;
          world.set_observer(&real);
          test::run_program(program, world, Device::cpu(), [](std::size_t) {});
          world.set_observer(nullptr);
          const Record& alone = records[static_cast<std::size_t>(world.rank())];
          EXPECT_EQ(figures(alone.stats), figures(world.stats()));
          std::vector<std::string> taped;
          for (const gpu::TapedExchange& exchange : alone.tape.exchanges) {
            taped.push_back(in_words(alone.tape, exchange));
            EXPECT_EQ(exchange.of_host, !on_device || exchange.kind == gpu::ExchangeKind::kBarrier);
          }
          EXPECT_THAT(taped, ::testing::UnorderedElementsAreArray(real.lines));
        },
        options);
  }
}

TEST_P(MetaWorld, EverySendMeetsOneReceive) {
  const DrawnProgram program = test::draw_program(random, 120);
  using Way = std::tuple<int, int, std::vector<int>, std::uint64_t>;  // from, to, group, name
  std::map<Way, std::vector<std::size_t>> sent, received;
  for (int rank = 0; rank < kRanks; ++rank) {
    Record one;
    record(program, rank, one);
    for (const gpu::TapedMessage& m : one.tape.messages) {
      const std::vector<int>& members = one.tape.groups[m.group].members;
      auto& sizes = m.sends ? sent[Way(rank, m.peer, members, m.name)]
                            : received[Way(m.peer, rank, members, m.name)];
      sizes.push_back(m.bytes);
    }
  }
  EXPECT_EQ(sent, received);
  for (const auto& [way, sizes] : sent) EXPECT_THAT(sizes, SizeIs(1)) << "a name is used once";
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<bool, bool>>& info) {
  return fmt::format("{}_{}", std::get<0>(info.param) ? "meta" : "host",
                     std::get<1>(info.param) ? "schedules" : "native");
}

INSTANTIATE_TEST_SUITE_P(On, MetaWorld, ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         name_of);

/// What a rank of four sees, alone and among ranks that are all like it.
class Mirror : public test::RandomTest {
 protected:
  /// @param call  gives the tensor that then holds the result; the world's ranks all have one seed.
  void expect_the_same(
      const std::function<Tensor(const Communicator&, test::Random&)>& call) const {
    std::vector<std::vector<double>> together(4);
    run_ranks(4, [&](Communicator& world) {
      test::Random own(seed);
      together[static_cast<std::size_t>(world.rank())] = call(world, own).to_vector();
    });
    for (int rank = 0; rank < 4; ++rank) {
      Tape tape;
      test::Random own(seed);
      const Tensor alone = call(comm::meta_world(rank, 4, tape), own);
      EXPECT_EQ(alone.to_vector(), together[static_cast<std::size_t>(rank)]) << "rank " << rank;
    }
  }

  const Device cpu = Device::cpu();
};

TEST_F(Mirror, ReductionsAreThoseOfEqualRanks) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAverage}) {
      SCOPED_TRACE(fmt::format("{} of {}", to_string(op), to_string(dtype)));
      const std::size_t count = random.between(0, 3000);
      expect_the_same([&](const Communicator& world, test::Random& own) {
        const Tensor data = own.tensor(cpu, {count}, dtype);
        world.all_reduce(data, op).wait();
        return data;
      });
      expect_the_same([&](const Communicator& world, test::Random& own) {
        const Tensor data = own.tensor(cpu, {count}, dtype);
        world.reduce(data, 2, op).wait();
        return data;
      });
      expect_the_same([&](const Communicator& world, test::Random& own) {
        const Tensor data = own.tensor(cpu, {count}, dtype);
        const Range part = comm::Chunks::even({0, count}, 4)[world.rank()];
        const Tensor own_part = Tensor::zeros(cpu, {part.size()}, dtype);
        world.reduce_scatter(data, own_part, op).wait();
        return own_part;
      });
    }
  }
}

TEST_F(Mirror, WhatIsGatheredOrCopiedIsThatOfEqualRanks) {
  const std::size_t count = random.between(0, 300);
  expect_the_same([&](const Communicator& world, test::Random& own) {
    const Tensor all = Tensor::zeros(cpu, {4 * count}, DType::kF64);
    world.all_gather(own.tensor(cpu, {count}, DType::kF64), all).wait();
    return all;
  });
  expect_the_same([&](const Communicator& world, test::Random& own) {  // in place
    const Tensor all = Tensor::zeros(cpu, {4 * count}, DType::kF32);
    const Tensor part = all.slice(0, comm::Chunks::even({0, 4 * count}, 4)[world.rank()]);
    own.fill(part, 1);
    world.all_gather(part, all).wait();
    return all;
  });
  expect_the_same([&](const Communicator& world, test::Random& own) {
    const Tensor all = Tensor::zeros(cpu, {4 * count}, DType::kF64);
    world.gather(own.tensor(cpu, {count}, DType::kF64), all, 1).wait();
    return all;
  });
  expect_the_same([&](const Communicator& world, test::Random& own) {
    const Tensor data = own.tensor(cpu, {count}, DType::kF32);
    world.broadcast(data, 3).wait();
    return data;
  });
}

TEST_F(Mirror, AnAllToAllBringsBackWhatWasSent) {
  Tape tape;
  const Communicator world = comm::meta_world(1, 4, tape);
  const Tensor sent = random.tokens(cpu, {4}, 100);
  const Tensor counts = Tensor::zeros(cpu, {4}, DType::kI32);
  world.all_to_all(sent, counts).wait();
  EXPECT_EQ(counts.to_vector(), sent.to_vector());
  const std::vector<std::size_t> to = {2, 0, 3, 1}, from = {2, 1, 2, 1};
  const Tensor rows = random.tensor(cpu, {6, 1}, DType::kF64);
  const Tensor received = test::filled(cpu, {6, 1}, DType::kF64, -1);
  world.all_to_all_v(rows, to, received, from).wait();
  const std::vector<double> r = rows.to_vector();
  EXPECT_EQ(received.to_vector(), (std::vector<double>{r[0], r[1], 0, r[2], r[3], r[5]}))
      << "of what is not there, zeros";
}

TEST_F(Mirror, WhatOnlyOthersHaveIsZeros) {
  Tape tape;
  const Communicator world = comm::meta_world(1, 4, tape);
  const Tensor part = test::filled(cpu, {3}, DType::kF32, 7);
  world.recv(part, 2).wait();
  EXPECT_EQ(part.to_vector(), (std::vector<double>{0, 0, 0}));
  part.fill(7);
  world.scatter(Tensor(), part, 0).wait();
  EXPECT_EQ(part.to_vector(), (std::vector<double>{0, 0, 0}));
  const Tensor all = random.tensor(cpu, {12}, DType::kF32);
  world.scatter(all, part, 1).wait();
  EXPECT_EQ(part.to_vector(), all.slice(0, {3, 6}).to_vector());
  const Tensor sent = random.tensor(cpu, {3}, DType::kF32);
  world.ring_shift(sent, part).wait();
  EXPECT_EQ(part.to_vector(), (std::vector<double>{0, 0, 0}));
}

/// Rank 1 of 4, with a device whose accesses need an order.
class MetaStreamsOfRanks : public ::testing::Test {
 protected:
  MetaStreamsOfRanks() { tape.run(true); }

  [[nodiscard]] Tensor tensor() const { return Tensor::zeros(device, {64}, DType::kF32); }
  [[nodiscard]] EventId last_end() const {
    const gpu::EventId of_exchange = tape.exchanges.empty() ? 0 : tape.exchanges.back().end;
    return tape.messages.empty() ? of_exchange : tape.messages.back().end;
  }
  /// The streams that have waited for an event, in order.
  [[nodiscard]] std::vector<StreamRole> waits_for(EventId event) const {
    std::vector<StreamRole> roles;
    for (const gpu::Entry& entry : tape.entries) {
      if (entry.kind == EntryKind::kWait && entry.index == event) roles.push_back(entry.role);
    }
    return roles;
  }
  [[nodiscard]] std::size_t waits() const {
    return static_cast<std::size_t>(
        std::ranges::count(tape.entries, EntryKind::kWait, &gpu::Entry::kind));
  }

  Tape tape;
  Communicator world = comm::meta_world(1, 4, tape);
  Device device = Device::meta(tape, 1, true);
};

TEST_F(MetaStreamsOfRanks, ACollectiveBeginsAfterItsCallersStreamAndWhoWaitsComesAfterIt) {
  const Tensor data = tensor();
  Work work = world.all_reduce(data);
  const std::size_t issued = tape.entries.size();
  ASSERT_GE(issued, 2U);
  const gpu::TapedExchange exchange = tape.exchanges.at(0);
  EXPECT_EQ(tape.entries[issued - 2].kind, EntryKind::kRecord);
  EXPECT_EQ(tape.entries[issued - 2].role, StreamRole::kCompute);
  EXPECT_EQ(tape.entries[issued - 2].index, exchange.ready);
  EXPECT_EQ(tape.entries[issued - 1].kind, EntryKind::kExchange);
  EXPECT_NE(exchange.end, 0U);
  EXPECT_FALSE(exchange.of_host);
  EXPECT_THAT(waits_for(exchange.end), IsEmpty());
  {
    const gpu::StreamScope scope(StreamRole::kCopy);
    work.wait();
  }
  EXPECT_THAT(waits_for(exchange.end), ElementsAre(StreamRole::kCopy));
  EXPECT_EQ(tape.entries.size(), issued + 1);
  EXPECT_EQ(device.streams().synchronizations(), 0U);
}

TEST_F(MetaStreamsOfRanks, DoneIsTrueAtOnceAndAWait) {
  const Tensor data = tensor();
  Work work = world.all_gather(data.slice(0, {16, 32}), data);
  EXPECT_TRUE(work.done());
  EXPECT_THAT(waits_for(last_end()), ElementsAre(StreamRole::kCompute));
}

TEST_F(MetaStreamsOfRanks, AReceiveIsWaitedForAndASendNever) {
  const Tensor data = tensor(), other = tensor();
  Work sending = world.send(data, 2);
  ASSERT_EQ(tape.messages.size(), 1U) << "when it is issued";
  EXPECT_EQ(tape.messages[0].end, 0U);
  EXPECT_NE(tape.messages[0].ready, 0U);
  EXPECT_EQ(tape.messages[0].peer, 2);
  EXPECT_TRUE(sending.done());
  EXPECT_EQ(waits(), 0U);
  world.recv(other, 0, {.channel = 3, .number = 8}).wait();
  EXPECT_THAT(waits_for(last_end()), ElementsAre(StreamRole::kCompute));
  EXPECT_EQ(waits(), 1U);
}

TEST_F(MetaStreamsOfRanks, AResultThatIsReadTooEarlyIsFound) {
  const Tensor data = tensor(), other = tensor();
  Work work = world.all_reduce(data);
  EXPECT_THROW(data.fill(1), gpu::OrderError);
  work.wait();
  data.fill(1);
  work = world.send(other, 2);
  EXPECT_THROW(other.fill(1), gpu::OrderError);
  work.wait();
  other.fill(1);
}

TEST_F(MetaStreamsOfRanks, WhatIsNotToBeWrittenCountsAllTheSame) {
  tape.run(false);
  const std::size_t before = tape.entries.size();
  const Tensor data = tensor();
  world.all_reduce(data).wait();
  world.send(data, 2).wait();
  world.all_reduce(Tensor::zeros(Device::cpu(), {1}, DType::kF64)).wait();
  EXPECT_EQ(tape.entries.size(), before);
  EXPECT_THAT(tape.groups, IsEmpty());
  EXPECT_EQ(world.stats()[OpKind::kAllReduce].operations, 2U);
}

TEST(MetaWorldErrors, ARankThatTheWorldDoesNotHaveIsNamed) {
  Tape tape;
  for (const int rank : {-1, 4}) {
    EXPECT_EQ(message_of<ConfigError>([&] { static_cast<void>(comm::meta_world(rank, 4, tape)); }),
              fmt::format("a world of 4 ranks has no rank {}: they are 0 to 3", rank));
  }
}

TEST(MetaWorldErrors, TensorsOfDevicesThatComputeAreRefused) {
  Tape tape;
  const Communicator world = comm::meta_world(0, 2, tape);
  const Tensor data = Tensor::zeros(Device::create(DeviceKind::kEmulated), {4}, DType::kF32);
  EXPECT_THAT(message_of<ConfigError>([&] { world.all_reduce(data).wait(); }),
              AllOf(StartsWith("all_reduce #0 of 'world' (sum of 4 f32 on emulated): its tensors"),
                    HasSubstr("takes those of the host and of a meta device")));
  EXPECT_THROW(world.send(data, 1).wait(), ConfigError);
}

TEST(MetaWorldSize, GroupsOfSixteenThousandRanks) {
  Tape tape;
  tape.run(true);
  const Communicator world = comm::meta_world(5000, 16384, tape);
  const Mesh mesh(world, MeshShape({replicas(128),
                                    {.name = "pp", .size = 16, .nearness = 20},
                                    {.name = "tp", .size = 8, .nearness = 40}}));
  EXPECT_EQ(mesh.along("dp").size(), 128);
  EXPECT_EQ(mesh.group({"dp", "tp"}).world_rank(9), 128 + (5000 / 8 % 16) * 8 + 1);
  mesh.group({"dp", "tp"}).all_reduce(Tensor::zeros(Device::cpu(), {1024}, DType::kF64)).wait();
  EXPECT_EQ(tape.groups.at(0).members.size(), 1024U);
  EXPECT_EQ(tape.exchanges.at(0).sent_bytes, 2 * 1023U * 8U);
}

}  // namespace
}  // namespace ultra
