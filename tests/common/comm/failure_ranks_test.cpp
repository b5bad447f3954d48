// Covers: common/comm/comm_error.hpp
//
// When a rank fails, every other rank that waits ends at once with an error that says why: in every
// operation, waited for or not, carried out by the platform or by schedules.

#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

constexpr int kSize = 4;
constexpr int kFailing = 2;
constexpr std::size_t kPart = 6;
constexpr std::size_t kWhole = kSize * kPart;
// Far below the time limit of a wait, far above what a busy machine needs.
constexpr double kPromptly = 10;
constexpr std::chrono::seconds kTimeout{100};

/// A rank's tensors for any operation.
struct Data {
  Tensor whole = Tensor::zeros(own_device(), {kWhole}, DType::kF32);
  Tensor other = Tensor::zeros(own_device(), {kWhole}, DType::kF32);
  Tensor part = Tensor::zeros(own_device(), {kPart}, DType::kF32);
  Tensor large = Tensor::zeros(own_device(), {50000}, DType::kF64);
  std::vector<std::size_t> counts = std::vector<std::size_t>(kSize, kPart);
};

/// An operation that needs the failing rank.
struct Waiting {
  const char* text;  ///< how its error names it, if everybody waits for the failing rank in it
  PendingCall (*call)(const Communicator&, const Data&);
};

constexpr const char* kSome = "of 'world'";  // what only some wait for may have ended on the others

constexpr Waiting kOperations[] = {
    {"broadcast #0 of 'world' (24 f32 from rank 2)",
     [](const auto& world, const Data& d) { return world.broadcast(d.whole, kFailing); }},
    {"all_reduce #0 of 'world' (sum of 24 f32)",
     [](const auto& world, const Data& d) { return world.all_reduce(d.whole); }},
    {"all_reduce #0 of 'world' (max of 50000 f64)",
     [](const auto& w, const Data& d) { return w.all_reduce(d.large, ReduceOp::kMax); }},
    {"scatter #0 of 'world' (24 f32 from rank 2)",
     [](const auto& w, const Data& d) { return w.scatter(d.whole, d.part, kFailing); }},
    {"all_gather #0 of 'world' (24 f32)",
     [](const auto& world, const Data& d) { return world.all_gather(d.part, d.whole); }},
    {"reduce_scatter #0 of 'world' (sum of 24 f32)",
     [](const auto& world, const Data& d) { return world.reduce_scatter(d.whole, d.part); }},
    {"all_to_all #0 of 'world' (24 f32)",
     [](const auto& world, const Data& d) { return world.all_to_all(d.whole, d.other); }},
    {"all_to_all #0 of 'world'",
     [](const auto& world, const Data& d) {
       return world.all_to_all_v(d.whole, d.counts, d.other, d.counts);
     }},
    {"recv #0 of 'world' (6 f32 from rank 2)",
     [](const auto& world, const Data& d) { return world.recv(d.part, kFailing); }},
    {"barrier #0 of 'world'", [](const auto& world, const Data&) { return world.barrier(); }},
    {kSome, [](const auto& world, const Data& d) { return world.reduce(d.whole, 0); }},
    {kSome, [](const auto& w, const Data& d) { return w.gather(d.part, d.whole, 0); }},
    {kSome, [](const auto& world, const Data& d) { return world.send(d.large, kFailing); }},
    {kSome, [](const auto& world, const Data& d) { return world.ring_shift(d.whole, d.other); }},
};

/// The platform's own collectives and schedules, checked and not.
class FailureRanks : public OptionsRanks {
 protected:
  FailureRanks() : OptionsRanks(kTimeout) {}

 private:
  test::Watchdog watchdog_{std::chrono::seconds(90)};
};

void expect_told(int rank, const test::Fate& fate, const std::string& doing) {
  SCOPED_TRACE(fmt::format("rank {}: {}", rank, fate.message));
  EXPECT_LT(fate.seconds, kPromptly);
  if (rank == kFailing) {
    EXPECT_TRUE(is_a<NumericError>(fate.error));
    return;
  }
  ASSERT_TRUE(is_a<RankFailed>(fate.error));
  EXPECT_EQ(kind_of(fate.error), ErrorKind::kBadInput);
  EXPECT_THAT(fate.message,
              AllOf(HasSubstr("rank 2"), HasSubstr("the loss is NaN"), HasSubstr(doing),
                    HasSubstr(fmt::format("(Rank {} waited", rank))));
}

TEST_P(FailureRanks, ARankThatThrowsEndsEveryBlockingCall) {
  for (const Waiting& operation : kOperations) {
    SCOPED_TRACE(operation.text);
    const auto pause = milliseconds(random.between(0, 5));
    const test::Fates fates = fates_with(options, kSize, [&](Communicator& world) {
      const Data data;
      if (world.rank() == kFailing) {
        std::this_thread::sleep_for(pause);
        throw NumericError("the loss is NaN");
      }
      operation.call(world, data).wait();
      world.barrier().wait();
    });
    for (const auto& [rank, fate] : fates.ranks) expect_told(rank, fate, worded(operation.text));
    if (fates.ranks.empty()) continue;
    EXPECT_NE(fates.thrown, nullptr);
    EXPECT_EQ(is_a<NumericError>(fates.thrown), fates.ranks.contains(kFailing));
  }
}

TEST_P(FailureRanks, ARankThatThrowsEndsEveryWait) {
  for (const Waiting& operation : kOperations) {
    SCOPED_TRACE(operation.text);
    const auto pause = milliseconds(random.between(0, 5));
    const test::Fates fates = fates_with(options, kSize, [&](Communicator& world) {
      const Data data;
      world.barrier().wait();
      Work work;
      if (world.rank() != kFailing) work = operation.call(world, data);
      std::this_thread::sleep_for(pause);
      if (world.rank() == kFailing) throw NumericError("the loss is NaN");
      work.wait();
      world.barrier().wait();
    });
    for (const auto& [rank, fate] : fates.ranks) expect_told(rank, fate, "of 'world'");
  }
}

TEST_P(FailureRanks, ARankThatForgetsItsWorkIsToldAtItsEnd) {
  const test::Fates fates = fates_with(options, kSize, [](Communicator& world) {
    const Data data;
    if (world.rank() == kFailing) throw NumericError("the loss is NaN");
    static_cast<void>(Work(world.all_reduce(data.large)));
  });
  for (const auto& [rank, fate] : fates.ranks) {
    if (rank != kFailing) {
      EXPECT_EQ(fate.error, nullptr) << "the function had returned";
    }
  }
  if (!fates.ranks.empty()) {
    EXPECT_NE(fates.thrown, nullptr);
  }
}

TEST_P(FailureRanks, AFailureReachesTheRanksOfOtherGroups) {
  const test::Fates fates = fates_with(options, kSize, [](Communicator& world) {
    const Data data;
    const Communicator half = world.split([](int rank) { return rank / 2; }, "half");
    if (world.rank() == kFailing) {
      std::this_thread::sleep_for(milliseconds(300));  // the others have left the split
      throw NumericError("the loss is NaN");
    }
    if (world.rank() == 3) half.all_reduce(data.whole).wait();
    world.barrier().wait();
  });
  for (const auto& [rank, fate] : fates.ranks) {
    expect_told(rank, fate, rank == 3 ? "all_reduce #0 of 'half'" : "barrier #1 of 'world'");
    if (rank == 3) {
      EXPECT_THAT(fate.message, HasSubstr("rank 0 (in the world: 2) has not"));
    }
  }
}

TEST_P(FailureRanks, WhoCatchesTheErrorIsToldAgain) {
  const test::Fates fates = fates_with(options, kSize, [](Communicator& world) {
    const Data data;
    if (world.rank() == kFailing) throw NumericError("the loss is NaN");
    EXPECT_THROW(world.all_reduce(data.whole).wait(), RankFailed);
    EXPECT_THROW(world.barrier().wait(), RankFailed);
    world.all_gather(data.part, data.whole).wait();
  });
  for (const auto& [rank, fate] : fates.ranks) expect_told(rank, fate, "of 'world'");
}

TEST_P(FailureRanks, ATimeoutNamesTheOperationAndTheMissingRank) {
  options.timeout = milliseconds(300);
  const test::Fates fates = fates_with(options, kSize, [](Communicator& world) {
    const Data data;
    world.barrier().wait();
    if (world.rank() == kFailing) std::this_thread::sleep_for(milliseconds(1500));
    world.labeled("bucket 2").all_reduce(data.whole).wait();
  });
  for (const auto& [rank, fate] : fates.ranks) {
    SCOPED_TRACE(fmt::format("rank {}: {}", rank, fate.message));
    if (rank == kFailing) continue;  // what the others gave before they left may be enough for it
    ASSERT_TRUE(is_a<CommTimeout>(fate.error) || is_a<RankFailed>(fate.error));
    EXPECT_THAT(fate.message, AllOf(HasSubstr(worded("has waited 0.3 s in all_reduce #1 of 'world' "
                                                     "(sum of 24 f32) [bucket 2]")),
                                    HasSubstr("--timeout")));
    // The star's members without a roll call wait for its center, which waits for rank 2.
    if (options.checking == Checking::kOff) continue;
    EXPECT_THAT(fate.message, HasSubstr("rank 2 has not arrived"));
  }
  if (!launched_world_size()) {
    EXPECT_TRUE(is_a<CommTimeout>(fates.thrown));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, FailureRanks,
                         ::testing::Values("native", "schedules", "unchecked", "native_emulated",
                                           "schedules_emulated", "unchecked_emulated"),
                         backend_name);

/// Two operations of which one rank calls the second and the others the first.
struct Mismatch {
  const char* name;
  std::function<void(const Communicator&, const Data&)> common;
  std::function<void(const Communicator&, const Data&)> odd;
  const char* common_text;
  const char* odd_text;
};

const Mismatch kMismatches[] = {
    {"Kind", [](const auto& world, const Data& d) { world.all_reduce(d.whole).wait(); },
     [](const auto& world, const Data& d) { world.broadcast(d.whole, 0).wait(); },
     "all_reduce (sum of 24 f32)", "broadcast (24 f32 from rank 0)"},
    {"Count", [](const auto& world, const Data& d) { world.all_reduce(d.whole).wait(); },
     [](const auto& world, const Data& d) { world.all_reduce(d.part).wait(); },
     "all_reduce (sum of 24 f32)", "all_reduce (sum of 6 f32)"},
    {"DType", [](const auto& world, const Data& d) { world.all_reduce(d.whole).wait(); },
     [](const auto& world, const Data& d) { world.all_reduce(d.whole.to(DType::kF64)).wait(); },
     "all_reduce (sum of 24 f32)", "all_reduce (sum of 24 f64)"},
    {"Reduction",
     [](const auto& world, const Data& d) { world.reduce_scatter(d.whole, d.part).wait(); },
     [](const auto& w, const Data& d) { w.reduce_scatter(d.whole, d.part, ReduceOp::kMin).wait(); },
     "reduce_scatter (sum of 24 f32)", "reduce_scatter (min of 24 f32)"},
    {"Root", [](const auto& world, const Data& d) { world.reduce(d.whole, 1).wait(); },
     [](const auto& world, const Data& d) { world.reduce(d.whole, 0).wait(); },
     "reduce (sum of 24 f32 to rank 1)", "reduce (sum of 24 f32 to rank 0)"},
    {"Order",
     [](const auto& world, const Data& d) {
       world.barrier().wait();
       world.all_gather(d.part, d.whole).wait();
     },
     [](const auto& world, const Data& d) {
       world.all_gather(d.part, d.whole).wait();
       world.barrier().wait();
     },
     "barrier", "all_gather (24 f32)"},
    {"Label",
     [](const auto& w, const Data& d) { w.labeled("bucket 1").all_reduce(d.whole).wait(); },
     [](const auto& w, const Data& d) { w.labeled("bucket 2").all_reduce(d.whole).wait(); },
     "all_reduce (sum of 24 f32) [bucket 1]", "all_reduce (sum of 24 f32) [bucket 2]"},
    {"LabelOfALargeOne",
     [](const auto& w, const Data& d) { w.labeled("bucket 1").all_reduce(d.large).wait(); },
     [](const auto& world, const Data& d) { world.all_reduce(d.large).wait(); },
     "all_reduce (sum of 50000 f64) [bucket 1]", "all_reduce (sum of 50000 f64)"},
};

class MismatchRanks : public ::testing::TestWithParam<Mismatch> {};

TEST_P(MismatchRanks, NamesBothCallsAndWhoCallsWhat) {
  const test::Watchdog watchdog(std::chrono::seconds(90));
  RankOptions star;
  star.algorithms = std::make_shared<const test::StarAlgorithms>();
  for (RankOptions options : {RankOptions{}, star}) {
    options.timeout = kTimeout;
    const test::Fates fates = fates_with(options, kSize, [&](Communicator& world) {
      const Data data;
      world.barrier().wait();
      (world.rank() == kFailing ? GetParam().odd : GetParam().common)(world, data);
    });
    for (const auto& [rank, fate] : fates.ranks) {
      SCOPED_TRACE(fmt::format("rank {}: {}", rank, fate.message));
      EXPECT_TRUE(is_a<CommMismatch>(fate.error) || is_a<RankFailed>(fate.error));
      EXPECT_EQ(kind_of(fate.error), ErrorKind::kComm);
      EXPECT_LT(fate.seconds, kPromptly);
      EXPECT_THAT(fate.message,
                  HasSubstr(fmt::format("'world' call different operations as their number 1: rank "
                                        "2 calls {}, ranks 0, 1, 3 call {}.",
                                        GetParam().odd_text, GetParam().common_text)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, MismatchRanks, ::testing::ValuesIn(kMismatches),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace ultra
