// What only threads can know of failures: that all ranks wait, and that memory of a rank that has
// failed is left alone. (AddressSanitizer and ThreadSanitizer watch.)

#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

using test::Fates;
using test::fates_of;

// Deadlocks are seen after some milliseconds; a busy machine gets more, the timeout has much more.

constexpr double kPromptly = 10;
constexpr std::chrono::seconds kTimeout{100};

Tensor floats(std::size_t count) { return filled(count, 1); }

class ThreadFailures : public DeviceRanks {
 protected:
  ThreadFailures() {
    native.timeout = kTimeout;
    star.timeout = kTimeout;
    unchecked = star;
    unchecked.checking = Checking::kOff;
  }

  /// Every rank ends at once, one of them with a Deadlock that says what each one does.
  static void expect_deadlock(const Fates& fates, const std::vector<std::string>& doing) {
    ASSERT_TRUE(is_a<Deadlock>(fates.thrown));
    const std::string text = message_of(fates.thrown);
    for (std::size_t rank = 0; rank < doing.size(); ++rank) {
      EXPECT_THAT(text, HasSubstr(worded(fmt::format(" Rank {} {}", rank, doing[rank]))));
    }
    for (const auto& [rank, fate] : fates.ranks) {
      SCOPED_TRACE(fmt::format("rank {}: {}", rank, fate.message));
      EXPECT_LT(fate.seconds, kPromptly);
      EXPECT_TRUE(!fate.error || is_a<Deadlock>(fate.error) || is_a<RankFailed>(fate.error));
    }
  }

  RankOptions native;
  RankOptions star = star_options();
  RankOptions unchecked;

 private:
  test::Watchdog watchdog_{std::chrono::seconds(100)};
};

TEST_P(ThreadFailures, SendsAroundARingThatAllWaitAreADeadlock) {
  for (const RankOptions& options : {native, star}) {
    const Fates fates = fates_with(
        options, 3, [](Communicator& world) { world.send(floats(5), world.next_rank()).wait(); });
    expect_deadlock(
        fates,
        {"waits in send #0 of 'world' (5 f32 to rank 1): rank 1 has not taken the message.",
         "waits in send #0 of 'world' (5 f32 to rank 2): rank 2 has not taken the message.",
         "waits in send #0 of 'world' (5 f32 to rank 0): rank 0 has not taken the message."});
  }
}

TEST_P(ThreadFailures, ReceivesThatNobodySendsAreADeadlock) {
  const Fates fates = fates_with(
      native, 2, [](Communicator& world) { world.recv(floats(5), world.next_rank()).wait(); });
  expect_deadlock(fates, {"waits in recv #0 of 'world' (5 f32 from rank 1): rank 1 has not sent.",
                          "waits in recv #0 of 'world' (5 f32 from rank 0): rank 0 has not sent."});
}

TEST_P(ThreadFailures, TwoGroupsInOppositeOrderAreADeadlock) {
  for (const RankOptions& options : {native, star, unchecked}) {
    const Fates fates = fates_with(options, 4, [](Communicator& world) {
      const Communicator row = world.split([](int rank) { return rank / 2; }, "row");
      const Communicator column = world.split([](int rank) { return rank % 2; }, "column");
      const Tensor data = floats(3000);
      // Around the square 0 - 1 - 3 - 2 each waits for the next one.
      const bool row_first = world.rank() == 0 || world.rank() == 3;
      (row_first ? row : column).all_reduce(data).wait();
      (row_first ? column : row).all_reduce(data).wait();
    });
    expect_deadlock(fates,
                    {"waits in all_reduce #0 of 'row'", "waits in all_reduce #0 of 'column'",
                     "waits in all_reduce #0 of 'column'", "waits in all_reduce #0 of 'row'"});
  }
}

TEST_P(ThreadFailures, ARankThatHasReturnedIsNamed) {
  for (const RankOptions& options : {native, star, unchecked}) {
    const Fates fates = fates_with(options, 3, [](Communicator& world) {
      if (world.rank() == 1) return;
      world.barrier().wait();
    });
    expect_deadlock(fates, {"waits in barrier #0 of 'world'", "has returned from its function.",
                            "waits in barrier #0 of 'world'"});
  }
}

TEST_P(ThreadFailures, ACollectiveAgainstASplitIsSeen) {
  for (const RankOptions& options : {native, star}) {
    const Fates fates = fates_with(options, 2, [](Communicator& world) {
      if (world.rank() == 0) static_cast<void>(world.split(std::identity()));
      if (world.rank() == 1) world.barrier().wait();
      world.barrier().wait();
    });
    EXPECT_TRUE(is_a<CommError>(fates.thrown));
    for (const auto& [rank, fate] : fates.ranks) EXPECT_LT(fate.seconds, kPromptly) << rank;
  }
}

TEST_P(ThreadFailures, ARankThatComputesIsNoDeadlock) {
  for (const RankOptions& options : {native, star}) {
    ranks_with(options, 3, [](Communicator& world) {
      if (world.rank() == 0) std::this_thread::sleep_for(milliseconds(300));
      world.barrier().wait();
      Work work = world.all_reduce(floats(3000));
      if (world.rank() == 2) std::this_thread::sleep_for(milliseconds(200));
      work.wait();
    });
  }
}

TEST_P(ThreadFailures, ASlowMessageIsNoDeadlock) {
  star.link = LinkSpeed{.latency = 0.15, .bytes_per_second = 1e9};
  ranks_with(star, 3, [](Communicator& world) { world.all_reduce(floats(10)).wait(); });
}

TEST_P(ThreadFailures, WhoOnlyAsksIsToldToo) {
  for (const RankOptions& options : {native, star}) {
    const Fates fates = fates_with(options, 3, [](Communicator& world) {
      Work work;
      if (world.rank() != 2) work = world.all_reduce(floats(3000));
      if (world.rank() == 2) throw ConfigError("bad flag");
      while (!work.done()) std::this_thread::yield();
    });
    for (const int rank : {0, 1}) {
      EXPECT_TRUE(is_a<RankFailed>(fates.ranks.at(rank).error));
      EXPECT_THAT(fates.ranks.at(rank).message,
                  AllOf(HasSubstr("rank 2"), HasSubstr("all_reduce #0"), HasSubstr("bad flag")));
    }
  }
}

/// How a rank of a random program goes wrong. Who throws behind a call has arrived, then goes: its tensors, and
/// those of its schedule, are freed at once.
enum class Fault { kThrowsBefore, kThrowsAfter, kReturns, kOtherCount, kOtherKind, kOtherMessage };

struct RandomProgram {
  struct Line {
    std::size_t kind;
    std::size_t count;
    bool in_half;
    bool waits;
  };
  std::vector<Line> lines;
  std::size_t bad_line;
  int bad_rank;
  Fault fault;
  std::chrono::microseconds pause;  // before it throws
};

RandomProgram draw_program(test::Random& random, int size) {
  RandomProgram program;
  program.lines.resize(random.between(1, 8));
  for (auto& line : program.lines) {
    line = {.kind = random.between(0, 6),
            .count = random.pick<std::size_t>({1, 7, 300, 3000, 60000}),
            .in_half = random.between(0, 2) == 0,
            .waits = random.between(0, 1) == 0};
  }
  program.bad_line = random.between(0, program.lines.size() - 1);
  program.bad_rank = static_cast<int>(random.between(0, static_cast<std::size_t>(size) - 1));
  program.fault = random.pick({Fault::kThrowsBefore, Fault::kThrowsAfter, Fault::kReturns,
                               Fault::kOtherCount, Fault::kOtherKind, Fault::kOtherMessage});
  program.pause = std::chrono::microseconds(random.between(0, 300));
  return program;
}

Work start_line(const Communicator& group, std::size_t kind, std::size_t count) {
  const auto p = static_cast<std::size_t>(group.size());
  switch (kind) {
    case 0:
      return group.all_reduce(floats(count));
    case 1:
      return group.broadcast(floats(count), group.size() - 1);
    case 2:
      return group.all_gather(floats(count), floats(count * p));
    case 3:
      return group.reduce_scatter(floats(count * p), floats(count));
    case 4:
      return group.all_to_all(floats(count * p), floats(count * p));
    case 5:
      return group.ring_shift(floats(count), floats(count));
    default:
      return group.gather(floats(count), floats(count * p), 0);
  }
}

void run_program(const RandomProgram& program, Communicator& world) {
  const Communicator half = world.split([](int rank) { return rank % 2; }, "half");
  std::vector<Work> forgotten;
  for (std::size_t i = 0; i < program.lines.size(); ++i) {
    const auto& line = program.lines[i];
    const bool bad = i == program.bad_line && world.rank() == program.bad_rank;
    const Communicator& group = line.in_half ? half : world;
    if (bad && program.fault == Fault::kThrowsBefore) throw NumericError("before");
    if (bad && program.fault == Fault::kReturns) return;
    if (bad && program.fault == Fault::kOtherMessage) group.recv(floats(1), 0, 17).wait();
    const bool other_kind = bad && program.fault == Fault::kOtherKind;
    const bool other_count = bad && program.fault == Fault::kOtherCount;
    Work work = start_line(group, other_kind ? (line.kind + 1) % 7 : line.kind,
                           line.count + (other_count ? 1 : 0));
    if (bad && program.fault == Fault::kThrowsAfter) {
      std::this_thread::sleep_for(program.pause);
      throw NumericError("after");
    }
    if (line.waits) {
      work.wait();
    } else {
      forgotten.push_back(std::move(work));
    }
  }
  world.barrier().wait();
}

TEST_P(ThreadFailures, NoFailureHangs) {
  for (int round = 0; round < 200; ++round) {
    const int size = static_cast<int>(random.between(2, 5));
    const RandomProgram program = draw_program(random, size);
    RankOptions options = random.pick({native, star, unchecked});
    options.progress = random.pick({Progress::kThread, Progress::kOnCall});
    const Fates fates =
        fates_with(options, size, [&](Communicator& world) { run_program(program, world); });
    SCOPED_TRACE(fmt::format("round {}: {} ranks, fault {} of rank {} in line {}", round, size,
                             static_cast<int>(program.fault), program.bad_rank, program.bad_line));
    const bool throws =
        program.fault == Fault::kThrowsBefore || program.fault == Fault::kThrowsAfter;
    // A group of one has nobody to disagree with, and an unchecked kind may send the same bytes.
    if (throws) {
      EXPECT_TRUE(is_a<NumericError>(fates.thrown));
    } else if (fates.thrown) {
      EXPECT_TRUE(is_a<CommError>(fates.thrown)) << message_of(fates.thrown);
    }
    for (const auto& [rank, fate] : fates.ranks) EXPECT_LT(fate.seconds, kPromptly) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(On, ThreadFailures, devices(), device_name);

}  // namespace
}  // namespace ultra
