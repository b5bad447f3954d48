// Covers: common/comm/engine/progress_engine.hpp
//
// Communication goes on while a rank computes. On a link so slow that its arithmetic alone tells the
// times: what a busy machine adds is small beside it.

#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

using Clock = CommObserver::Clock;

constexpr std::size_t kElements = 3000;
// Of all elements over the link, once. The star's all-reduce of two ranks sends them there and back,

// one after the other: 60 ms.
constexpr double kTransferSeconds = 0.03;

struct Interval {
  Clock::time_point begin;
  Clock::time_point end;

  [[nodiscard]] double seconds() const {
    return std::max(0.0, std::chrono::duration<double>(end - begin).count());
  }
};

double common_seconds(const Interval& a, const Interval& b) {
  return Interval{std::max(a.begin, b.begin), std::min(a.end, b.end)}.seconds();
}

/// Keeps what the all-reduces of a rank did.
class Log : public CommObserver {
 public:
  void operation_ended(const OperationInfo& info, std::size_t /*sent_bytes*/,
                       Clock::time_point begin, Clock::time_point end) override {
    if (info.kind == OpKind::kAllReduce) operations.push_back({begin, end});
  }
  void waited(const OperationInfo& info, Clock::time_point begin, Clock::time_point end) override {
    if (info.kind == OpKind::kAllReduce) waits.push_back({begin, end});
  }

  std::vector<Interval> operations;
  std::vector<Interval> waits;
};

/// A rank's own work: keeps its core busy until the time is over.
Interval compute(milliseconds time) {
  const auto begin = Clock::now();
  volatile double sum = 0;
  while (Clock::now() < begin + time) {
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
  double busy = 0;
  double exposed = 0;
  Interval computing;
  Log log;
};

/// Both ranks start an all-reduce, do their own work, and wait for it.
template <class Work, class Check>
void overlap(Progress progress, Work&& work, Check&& check) {
  ranks_with(slow_link(progress), 2, [&](Communicator& world) {
    Measured measured;
    const Tensor data = filled(kElements, 1.0 + world.rank(), DType::kF64);
    world.barrier();
    const CommStats before = world.stats();
    world.set_observer(&measured.log);
    ultra::Work all_reduce = world.all_reduce_async(data);
    measured.computing = work(world);
    all_reduce.wait();
    world.set_observer(nullptr);
    const CommStats after = world.stats();
    measured.busy = after.busy_seconds - before.busy_seconds;
    measured.exposed = after.exposed_seconds - before.exposed_seconds;
    expect_sum(data);
    check(measured);
  });
}

/// Work of that time without a look at the communication.
auto computing_for(milliseconds time) {
  return [time](const Communicator&) { return compute(time); };
}

class Overlap : public DeviceRanks {};

TEST_P(Overlap, ACollectiveThatIsWaitedForIsExposed) {
  overlap(Progress::kThread, computing_for(milliseconds(0)), [](const Measured& rank) {
    // The other rank may have come out of the barrier later.
    EXPECT_GE(rank.exposed, kTransferSeconds);
    EXPECT_LE(rank.exposed, rank.busy);
  });
}

TEST_P(Overlap, HidesACollectiveBehindLongerComputation) {
  overlap(Progress::kThread, computing_for(milliseconds(400)), [](const Measured& rank) {
    EXPECT_GE(rank.busy, 0.9 * kTransferSeconds);
    EXPECT_LT(rank.exposed, 0.3 * rank.busy)
        << "computation lasts more than six times as long as the transfers";
  });
}

TEST_P(Overlap, ShowsInTheTimeline) {
  overlap(Progress::kThread, computing_for(milliseconds(400)), [](const Measured& rank) {
    ASSERT_EQ(rank.log.operations.size(), 1U);
    const Interval& operation = rank.log.operations.front();
    EXPECT_GE(operation.seconds(), 0.9 * kTransferSeconds);
    EXPECT_GE(common_seconds(operation, rank.computing), 0.7 * operation.seconds())
        << "under way while the rank computed";
    double waited = 0;
    for (const Interval& wait : rank.log.waits) waited += wait.seconds();
    EXPECT_LT(waited, 0.3 * operation.seconds());
  });
}

TEST_P(Overlap, LeavesTheRestOfALongTransferExposed) {
  overlap(Progress::kThread, computing_for(milliseconds(5)), [](const Measured& rank) {
    EXPECT_GE(rank.exposed, 0.5 * kTransferSeconds) << "5 ms of computation hide 5 ms of 60";
    EXPECT_LE(rank.exposed, rank.busy);
  });
}

TEST_P(Overlap, NeedsSomebodyWhoMovesTheOperation) {
  overlap(Progress::kOnCall, computing_for(milliseconds(100)), [](const Measured& rank) {
    EXPECT_GE(rank.exposed, 0.9 * kTransferSeconds)
        << "without a progress thread the way back begins when the ranks wait";
  });
}

TEST_P(Overlap, ComesOnCallWhenTheRankCallsProgress) {
  const auto work_in_pieces = [](const Communicator& world) {
    Interval all = compute(milliseconds(0));
    while (all.seconds() < 0.4) {
      all.end = compute(milliseconds(4)).end;
      world.progress();
    }
    return all;
  };
  overlap(Progress::kOnCall, work_in_pieces, [](const Measured& rank) {
    EXPECT_GE(rank.busy, 0.9 * kTransferSeconds);
    EXPECT_LT(rank.exposed, 0.3 * rank.busy);
  });
}

INSTANTIATE_TEST_SUITE_P(On, Overlap, devices(), device_name);

}  // namespace
}  // namespace ultra
