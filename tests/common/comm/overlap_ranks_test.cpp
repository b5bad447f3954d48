// Covers: common/comm/engine/progress_engine.hpp
//
// Communication goes on while a rank computes. A rank that computes until its operation has ended tells
// that, however busy the machine is; and what a slowed link takes at least is arithmetic.

#include <atomic>

#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

using Clock = CommObserver::Clock;

constexpr std::size_t kElements = 3000;
// Of all elements over the link, once. The star's all-reduce of two ranks sends them there and back, one
// after the other: a rank's own message takes as long.
constexpr double kTransferSeconds = 0.1;

struct Interval {
  Clock::time_point begin;
  Clock::time_point end;

  [[nodiscard]] double seconds() const {
    return std::max(0.0, std::chrono::duration<double>(end - begin).count());
  }
};

/// Keeps what the all-reduces of a rank did.
class Log : public CommObserver {
 public:
  void operation_ended(const OperationInfo& info, std::size_t /*sent_bytes*/,
                       Clock::time_point begin, Clock::time_point end) override {
    if (info.kind != OpKind::kAllReduce) return;
    operations.push_back({begin, end});
    has_ended = true;
  }
  void waited(const OperationInfo& info, Clock::time_point begin, Clock::time_point end) override {
    if (info.kind == OpKind::kAllReduce) waits.push_back({begin, end});
  }

  std::vector<Interval> operations;
  std::vector<Interval> waits;
  std::atomic<bool> has_ended{false};
};

/// A rank's own work: keeps its core busy while it shall.
template <class While>
Interval compute(While&& more) {
  const auto begin = Clock::now();
  volatile double sum = 0;
  while (more()) {
    for (int i = 1; i < 1000; ++i) sum = sum + 1.0 / i;
  }
  return {begin, Clock::now()};
}

RankOptions slow_link(Progress progress) {
  return {.timeout = std::chrono::seconds(60),
          .checking = Checking::kOff,
          .progress = progress,
          .link = LinkSpeed{.latency = 0,
                            .bytes_per_second = kElements * sizeof(double) / kTransferSeconds},
          .algorithms = std::make_shared<const test::StarAlgorithms>()};
}

void expect_sum(const Tensor& data) {
  for (const double value : data.to_vector()) ASSERT_EQ(value, 3.0);
}

/// What one rank measured around one all-reduce.
struct Measured {
  int rank = 0;
  double busy = 0;
  double exposed = 0;
  double before_wait = 0;  // from the call that started it until the rank waited
  Interval computing;
  Log log;
};

/// Both ranks start an all-reduce, do their own work, and wait for it.
template <class Work, class Check>
void overlap(Progress progress, Work&& work, Check&& check) {
  ranks_with(slow_link(progress), 2, [&](Communicator& world) {
    Measured measured;
    measured.rank = world.rank();
    const Tensor data = filled(kElements, 1.0 + world.rank(), DType::kF64);
    world.barrier().wait();
    const CommStats before = world.stats();
    world.set_observer(&measured.log);
    const auto start = Clock::now();
    ultra::Work all_reduce = world.all_reduce(data);
    measured.computing = work(world, measured.log);
    all_reduce.wait();
    world.set_observer(nullptr);
    const std::vector<Interval>& waits = measured.log.waits;
    measured.before_wait =
        Interval{start, waits.empty() ? Clock::now() : waits.front().begin}.seconds();
    const CommStats after = world.stats();
    measured.busy = after.busy_seconds - before.busy_seconds;
    measured.exposed = after.exposed_seconds - before.exposed_seconds;
    expect_sum(data);
    check(measured);
  });
}

/// Work of that time without a look at the communication.
auto computing_for(milliseconds time) {
  return [time](const Communicator&, const Log&) {
    const auto until = Clock::now() + time;
    return compute([&] { return Clock::now() < until; });
  };
}

/// Work without a look at the communication, until the operation has ended by itself.
Interval compute_until_it_has_ended(const Communicator&, const Log& log) {
  const auto give_up = Clock::now() + std::chrono::seconds(30);
  return compute([&] { return !log.has_ended && Clock::now() < give_up; });
}

/// The operation ended while the rank computed: nothing was left to wait for.
void expect_hidden(const Measured& rank) {
  EXPECT_GE(rank.busy, 0.99 * kTransferSeconds);
  EXPECT_EQ(rank.exposed, 0.0);
  ASSERT_EQ(rank.log.operations.size(), 1U);
  const Interval& operation = rank.log.operations.front();
  EXPECT_GE(operation.seconds(), 0.99 * kTransferSeconds);
  EXPECT_LE(operation.end, rank.computing.end) << "under way while the rank computed";
  EXPECT_TRUE(rank.log.waits.empty());
}

class Overlap : public DeviceRanks {};

TEST_P(Overlap, ACollectiveThatIsWaitedForIsExposed) {
  overlap(Progress::kThread, computing_for(milliseconds(0)), [](const Measured& rank) {
    EXPECT_GE(rank.exposed, 0.99 * kTransferSeconds - rank.before_wait);
    EXPECT_LE(rank.exposed, rank.busy);
  });
}

TEST_P(Overlap, HidesACollectiveBehindLongerComputation) {
  overlap(Progress::kThread, compute_until_it_has_ended, expect_hidden);
}

TEST_P(Overlap, NeedsSomebodyWhoMovesTheOperation) {
  overlap(Progress::kOnCall, computing_for(milliseconds(100)), [](const Measured& rank) {
    if (rank.rank != 0) return;  // who receives the sum waits for rank 0, which may have begun to
    EXPECT_GE(rank.exposed, 0.99 * kTransferSeconds)
        << "without a progress thread the way back begins when rank 0 waits";
  });
}

TEST_P(Overlap, ComesOnCallWhenTheRankCallsProgress) {
  const auto work_in_pieces = [](const Communicator& world, const Log& log) {
    const auto give_up = Clock::now() + std::chrono::seconds(30);
    return compute([&] {
      world.progress();
      return !log.has_ended && Clock::now() < give_up;
    });
  };
  overlap(Progress::kOnCall, work_in_pieces, expect_hidden);
}

INSTANTIATE_TEST_SUITE_P(On, Overlap, devices(), device_name);

}  // namespace
}  // namespace ultra
