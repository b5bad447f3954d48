// Covers: common/train/run/trainer.hpp
//
// Training on several ranks: one result, one set of files, one error.

#include "common/train/run/trainer.hpp"

#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "common/base/interrupt.hpp"
#include "common/gpu/streams.hpp"
#include "common/train/run/text_messages.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/program.hpp"
#include "tests/support/ranks/rank_fates.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::train {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::ultra::test::Fates;
using ::ultra::test::fates_of;
using ultra::test::losses_of;
using ultra::test::quietly;
using ultra::test::train_replicated;

/// Weights of short_run(): 9 per block, the tables and the last norm.
constexpr std::size_t kTensors = 2 * 9 + 3;

class RanksTrain : public ::testing::Test {
 protected:
  RanksTrain() {
    options.metrics = folder.path("metrics.jsonl");
    options.trace = folder.path("trace.json");
  }

  /// Trains on that many ranks; false where there is nothing to read: rank 0 writes.
  bool train_with_files(int ranks) const {
    quietly([&] {
      run_ranks(ranks,
                [&](Communicator& world) { static_cast<void>(train_replicated(options, world)); });
    });
    if (launched_rank() == 0) return true;
    EXPECT_THAT(folder.names(), IsEmpty());
    return false;
  }

  ultra::test::TemporaryFolder folder;  // each process has its own, that of rank 0 counts
  TrainOptions options = ultra::test::short_run();
};

TEST_F(RanksTrain, LeaveMultiprocessorsToCommunicationWhereThereIsSome) {
  TrainOptions on_device = ultra::test::short_run();
  on_device.device = DeviceKind::kEmulated;
  for (const int ranks : {1, 2}) {
    const unsigned expected = ranks == 1 ? 0 : gpu::kMultiprocessorsOfCommunication;
    quietly([&] {
      run_ranks(ranks, [&](Communicator& world) {
        const auto look =
            ultra::test::before_each_step([&](const StepPlan&, const ModelScope& scope) {
              const simt::Queue queue =
                  scope.context.device.streams().queue(gpu::StreamRole::kCompute);
              EXPECT_EQ(queue.spare_multiprocessors, expected);
            });
        static_cast<void>(train_replicated(on_device, world, look));
      });
    });
  }
}

TEST_F(RanksTrain, AllRanksHaveOneResult) {
  quietly([&] {
    run_ranks(4, [&](Communicator& world) {
      const TrainResult result = train_replicated(options, world);
      ultra::test::expect_same_on_all(world, losses_of(result));
      ASSERT_EQ(result.ranks.size(), 4U);
      for (int rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(result.ranks[static_cast<std::size_t>(rank)].rank, rank);
      }
    });
  });
}

TEST_F(RanksTrain, EachRanksFiguresAreItsOwn) {
  quietly([&] {
    run_ranks(2, [&](Communicator& world) {
      const auto use_memory = [&](const StepPlan&, const ModelScope& scope) {
        if (world.rank() == 0) return;
        const Tensor more = Tensor::empty(scope.context.device, {1000}, DType::kF64,
                                          MemoryCategory::kCommunication);
      };
      const TrainResult result =
          train_replicated(options, world, ultra::test::before_each_step(use_memory));
      EXPECT_EQ(result.ranks[0].memory.peak(MemoryCategory::kCommunication).bytes, 0U);
      EXPECT_EQ(result.ranks[1].memory.peak(MemoryCategory::kCommunication).bytes, 8000U);
      for (const RankSummary& rank : result.ranks) {
        EXPECT_EQ(rank.memory.peak(MemoryCategory::kParameters).bytes, 4 * result.parameters);
        EXPECT_EQ(rank.memory.peak(MemoryCategory::kParameters).phase, "setup");
        EXPECT_GT(rank.seconds.forward_backward, 0.0);
        EXPECT_GT(rank.seconds.optimizer, 0.0);
        EXPECT_GE(rank.seconds.total, rank.seconds.compute);
        EXPECT_GT(rank.communication.busy_seconds, 0.0);
        const CommStats::PerKind& reductions = rank.communication[OpKind::kAllReduce];
        EXPECT_GT(reductions.operations, 0U);
        EXPECT_EQ(reductions.operations % options.steps, 0U);
        EXPECT_EQ(rank.communication.sent_bytes(), reductions.sent_bytes)
            << "what the trainer itself says is not the training's traffic";
      }
      EXPECT_EQ(
          result.ranks[0].communication.sent_bytes() + result.ranks[1].communication.sent_bytes(),
          options.steps * 2 * (4 * result.parameters + 8 * (kTensors + 1)))
          << "2 (N-1) times the gradients, a square per tensor and the loss, of N = 2 ranks";
    });
  });
}

TEST_F(RanksTrain, RankZeroAloneSpeaks) {
  options.global_batch = 6;
  const std::string printed = quietly([&] {
    run_ranks(3, [&](Communicator& world) { static_cast<void>(train_replicated(options, world)); });
  });
  if (launched_rank() != 0) {
    EXPECT_EQ(printed, "");
    return;
  }
  EXPECT_THAT(printed, AllOf(HasSubstr("trained by 3 ranks on"), HasSubstr("step     5/5")));
  EXPECT_EQ(static_cast<std::size_t>(std::count(printed.begin(), printed.end(), '\n')),
            1 + options.steps);
}

TEST_F(RanksTrain, OneMetricsFileHoldsAllRanks) {
  if (!train_with_files(2)) return;
  EXPECT_THAT(folder.names(), ElementsAre("metrics.jsonl", "trace.json"));
  const std::vector<json> events = ultra::test::events_of(options.metrics);
  ASSERT_EQ(events.size(), options.steps + 1);
  EXPECT_EQ(events.back().at("ranks").size(), 2U);
}

TEST_F(RanksTrain, TheRanksOfAProcessReadTheTextOnce) {
  if (launched_world_size()) GTEST_SKIP() << "each rank is a process, which reads it";
  options.data = folder.write("text", ultra::test::read_file(ultra::test::kText));
  auto setup = ultra::test::setup_of(options, 4, list_of(ultra::test::plain_training()));
  quietly([&] {
    run_ranks(4, [&](Communicator& world) { static_cast<void>(train_with(setup, world)); });
  });
  std::filesystem::remove(options.data);
  EXPECT_GT(setup.text->open(options.data_file()).size(), 0U)
      << "it was opened here, for all of them";
}

/// The spans of each rank's tracks in a trace file.
using Spans = std::map<int, std::map<std::string, std::vector<json>>>;

Spans spans_of(const std::string& path) {
  std::map<int, std::map<int, std::string>> tracks;
  Spans spans;
  const json trace = json::parse(ultra::test::read_file(path));
  for (const json& event : trace.at("traceEvents")) {
    const int rank = event.at("pid");
    if (event.at("name") == "thread_name") {
      tracks[rank][event.at("tid")] = event.at("args").at("name");
    } else if (event.at("ph") == "X") {
      spans[rank][tracks[rank].at(event.at("tid"))].push_back(event);
    }
  }
  return spans;
}

double begin_of(const json& span) { return span.at("ts"); }
double end_of(const json& span) { return begin_of(span) + span.at("dur").get<double>(); }

TEST_F(RanksTrain, OneTraceHoldsAllRanksOnOneClock) {
  options.steps = 6;
  options.trace_steps = 3;
  if (!train_with_files(2)) return;
  Spans spans = spans_of(options.trace);
  ASSERT_EQ(spans.size(), 2U);
  for (auto& [rank, of_rank] : spans) {
    EXPECT_EQ(of_rank["step"].size(), 3U);
    EXPECT_FALSE(of_rank["waiting"].empty());
    const double begin = begin_of(of_rank["step"].front());
    const std::size_t before = std::erase_if(
        of_rank["communication"], [&](const json& span) { return end_of(span) <= begin; });
    EXPECT_EQ(before > 0, launched_world_size().has_value()) << "processes meet to make a mesh";
    EXPECT_FALSE(of_rank["communication"].empty());
    EXPECT_EQ(of_rank["communication"].size() % 3, 0U) << "as many in each of three steps";
    for (const json& span : of_rank["communication"]) {
      EXPECT_THAT(span.at("name").get<std::string>(),
                  AnyOf("all_reduce dp", "all_reduce world: loss and norm"));
      EXPECT_LE(begin_of(span), end_of(of_rank["step"].back())) << "traced steps only";
    }
  }
  ASSERT_EQ(spans[0]["communication"].size(), spans[1]["communication"].size());
  for (std::size_t i = 0; i < spans[0]["communication"].size(); ++i) {
    const json& a = spans[0]["communication"][i];
    const json& b = spans[1]["communication"][i];
    EXPECT_EQ(a.at("args").at("elements"), b.at("args").at("elements"));
    EXPECT_LE(begin_of(a), end_of(b)) << "it ends nowhere before it has begun everywhere";
    EXPECT_LE(begin_of(b), end_of(a));
  }
}

class RanksStop : public RanksTrain {
 protected:
  /// What becomes of two ranks when one of them calls `fn` at step 3.
  Fates fates_when(int failing, const std::function<void(const ModelScope& scope)>& fn) const {
    Fates fates;
    quietly([&] {
      fates = fates_of(2, [&](Communicator& world) {
        const auto call = [&](const StepPlan& plan, const ModelScope& scope) {
          if (world.rank() == failing && plan.step == 3) fn(scope);
        };
        static_cast<void>(train_replicated(options, world, ultra::test::before_each_step(call)));
      });
    });
    return fates;
  }

  /// What an E says that every rank of three must throw; the same on all.
  template <class E>
  void expect_alike(const std::string& part) const {
    quietly([&] {
      run_ranks(2, [&](Communicator& world) {
        const std::string message = ultra::test::message_of<E>(
            [&] { static_cast<void>(train_replicated(options, world)); });
        EXPECT_THAT(message, HasSubstr(part));
        EXPECT_EQ(message, broadcast_text(world, message)) << "rank " << world.rank();
      });
    });
    EXPECT_THAT(folder.names(), IsEmpty());
  }
};

TEST_F(RanksStop, WhenASignalComesAndLeaveNoFile) {
  const InterruptGuard guard;
  EXPECT_EQ(kind_of(fates_when(1, [](const ModelScope&) { std::raise(SIGINT); }).thrown),
            ErrorKind::kInterrupted);
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST_F(RanksStop, AlikeWhenTrainingDiverges) {
  options.learning_rate = 1e30;
  options.clip_norm = 0.0;
  expect_alike<NumericError>("at step 2");
}

TEST_F(RanksStop, AlikeWhenOneOfThemHasALossThatIsNotFinite) {
  const auto lose = [](const ModelScope& scope) {
    scope.chunks[0]->parameters()[0]->value().fill(std::nan(""));
  };
  for (const int failing : {0, 1}) {
    for (const auto& [rank, fate] : fates_when(failing, lose).ranks) {
      EXPECT_TRUE(ultra::test::is_a<NumericError>(fate.error)) << rank << ": " << fate.message;
      EXPECT_THAT(fate.message, HasSubstr("the loss is nan at step 3"));
    }
  }
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST_F(RanksStop, AlikeBeforeTheFirstStepWhenRankZeroCannotWrite) {
  options.trace = folder.path("missing/trace.json");
  expect_alike<FileError>("--trace");
}

TEST_F(RanksStop, AlikeWhenTheDiskIsFullAtTheEnd) {
  options.metrics = "/dev/full";
  if (!std::filesystem::exists(options.metrics)) GTEST_SKIP() << "this system has no /dev/full";
  expect_alike<FileError>("disk full");
}

}  // namespace
}  // namespace ultra::train
