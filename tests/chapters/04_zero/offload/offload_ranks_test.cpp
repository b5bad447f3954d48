// Training with offloaded states, on all ranks: bit for bit the run without, within the memory that
// is predicted to the byte; a rank whose storage fails ends all.
//
// Covers: chapters/04_zero/units.hpp, chapters/04_zero/offload/offload_options.hpp

#include "chapters/04_zero/offload/offload_options.hpp"
#include "common/storage/storage.hpp"
#include "tests/chapters/04_zero/checkpoints/late_file.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;
using storage::Backend;

std::vector<Offload> kinds_of(ZeroStage stage) {
  if (stage != ZeroStage::kParameters) return {Offload::kOptimizer};
  return {Offload::kOptimizer, Offload::kOptimizerAndParameters};
}

class OffloadedTraining : public ZeroTest {
 protected:
  /// Four steps of a small run with several micro-batches and blocks.
  ZeroCase draw_short(int ranks, ZeroStage stage) {
    ZeroCase c = draw(ranks, stage, random.pick({DType::kF32, DType::kF64}));
    c.settings.cut = ShardCut::kFlat;
    c.options.steps = 4;
    c.recompute.mode =
        random.pick({memory::Recompute::kNone, memory::Recompute::kFull, memory::Recompute::kFull});
    if (c.recompute.mode == memory::Recompute::kFull) {
      c.recompute.recompute_every = random.between(1, 2);
    }
    return c;
  }

  /// The same with its states elsewhere, in blocks of any size.
  ZeroCase offloaded(ZeroCase c, Offload what) {
    const std::size_t block = random.pick<std::size_t>({1, 500, 5000, 50'000, 1 << 20});
    c.settings.offload = offload_late(what, block);
    const std::size_t kind = random.between(0, 3);
    if (kind == 0) c.settings.offload.open = {};  // the host's memory
    if (kind == 1) c.settings.offload.open = file_by(Backend::kThreads);
    if (kind == 2 && storage::file_backend() == Backend::kIoUring) {
      c.settings.offload.open = file_by(Backend::kIoUring);
    }
    return c;
  }

  [[nodiscard]] OpenStorage file_by(Backend backend) const {
    return [path = folder.path(), backend](std::uint64_t bytes) {
      return storage::open_scratch_file(path, bytes, backend);
    };
  }

  static void expect_same(const ZeroRun& actual, const ZeroRun& expected) {
    EXPECT_EQ(losses_and_norms(actual.result), losses_and_norms(expected.result)) << "bitwise";
    EXPECT_TRUE(actual.own == expected.own) << "the weights, bitwise";
  }

  TemporaryFolder folder;
};

TEST_F(OffloadedTraining, IsTheRunWithoutOffloadingBitForBit) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const ZeroStage stage : kSharded) {
      const ZeroCase plain = draw_short(ranks, stage);
      std::vector<ZeroCase> cases;
      for (const Offload what : kinds_of(stage)) cases.push_back(offloaded(plain, what));
      on_ranks(plain, [&](Communicator& dp) {
        const ZeroRun expected = run_zero(dp, plain);
        for (const ZeroCase& c : cases) expect_same(run_zero(dp, c), expected);
      });
    }
  }
}

/// One momentum of each matrix, two moments of all else. Matrices step when all their pieces have been
/// together; weights in storage come a second time for that.
TEST_F(OffloadedTraining, MuonIsTheSameBitForBitAndMovesItsStates) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const ZeroStage stage : kSharded) {
      ZeroCase plain = draw_short(ranks, stage);
      plain.options.optimizer = "muon";
      for (const Offload what : kinds_of(stage)) {
        const ZeroCase c = offloaded(plain, what);
        on_ranks(plain, [&](Communicator& dp) {
          SCOPED_TRACE(c.str());
          const ZeroRun run = run_zero(dp, c);
          expect_same(run, run_zero(dp, plain));
          const train::OffloadUse& use = run.result.ranks.front().offload;
          const std::size_t times = what == Offload::kOptimizer ? 1 : 2;
          EXPECT_EQ(use.optimizer.read_bytes, times * c.options.steps * use.stored_bytes);
          EXPECT_EQ(use.optimizer.written_bytes, times * c.options.steps * use.stored_bytes);
        });
      }
    }
  }
}

std::size_t peak_bytes(const train::RankSummary& rank, MemoryCategory category) {
  return rank.memory.peak(category).bytes;
}

/// What a rank's optimizer keeps of its shard is stored, read and written once in a step; with the
/// parameters their shard too, half as much again.
TEST_F(OffloadedTraining, EveryRankStoresWhatItWouldKeep) {
  const auto ranks_of = [](const ZeroCase& c) {
    train::TrainResult result;
    on_ranks(
        c,
        [&](Communicator& dp) {
          const train::TrainResult own = train_zero(dp, c);
          if (dp.rank() == 0) result = own;
        },
        in_rank_order(Progress::kOnCall));
    return result.ranks;
  };
  for (const int ranks : {1, 3}) {
    for (const ZeroStage stage : kSharded) {
      const ZeroCase plain = draw_short(ranks, stage);
      const std::vector<train::RankSummary> stays = ranks_of(plain);
      for (const Offload what : kinds_of(stage)) {
        const ZeroCase c = offloaded(plain, what);
        const std::vector<train::RankSummary> goes = ranks_of(c);
        SCOPED_TRACE(c.str());
        for (std::size_t i = 0; i < goes.size(); ++i) {
          const std::size_t optimizer = peak_bytes(stays[i], MemoryCategory::kOptimizer);
          const train::OffloadUse& use = goes[i].offload;
          EXPECT_EQ(use.stored_bytes, what == Offload::kOptimizer ? optimizer : optimizer * 3 / 2);
          EXPECT_EQ(use.optimizer.read_bytes, c.options.steps * use.stored_bytes);
          EXPECT_EQ(use.optimizer.written_bytes, c.options.steps * use.stored_bytes);
          EXPECT_EQ(peak_bytes(goes[i], MemoryCategory::kGradients),
                    peak_bytes(stays[i], MemoryCategory::kGradients));
        }
      }
    }
  }
}

class OffloadedFailure : public OffloadedTraining {
 protected:
  /// Trains, where each rank has its own case, and expects that no file is left.
  [[nodiscard]] Fates fates(const ZeroCase& c, const std::function<ZeroCase(int rank)>& case_of) {
    Fates found =
        fates_of_ranks(c, [&](int rank) { return std::pair(case_of(rank), StageChanges()); });
    EXPECT_THAT(folder.names(), IsEmpty());
    return found;
  }
};

TEST_F(OffloadedFailure, AReadThatFailsOnOneRankEndsAll) {
  for (const ZeroStage stage : kSharded) {
    for (const Offload what : kinds_of(stage)) {
      const ZeroCase c = offloaded(draw_short(3, stage), what);
      const int guilty = static_cast<int>(random.between(0, 2));
      const std::size_t failing = random.between(0, 3);
      const Fates found = fates(c, [&](int rank) {
        ZeroCase own = c;
        if (rank != guilty) return own;
        own.settings.offload.open = [failing](std::uint64_t bytes) {
          return std::make_unique<FailingFile>(bytes, failing);
        };
        return own;
      });
      expect_told<FileError>(found, c.str(), guilty, "this disk is broken");
    }
  }
}

TEST_F(OffloadedFailure, AFolderThatIsMissingOnOneRankEndsAllBeforeTheFirstStep) {
  for (const ZeroStage stage : kSharded) {
    ZeroCase c = draw_short(3, stage);
    c.settings.offload.what = kinds_of(stage).back();
    c.settings.offload.folder = folder.path();
    const Fates found = fates(c, [&](int rank) {
      ZeroCase own = c;
      if (rank == 1) own.settings.offload.folder = folder.path("missing");
      return own;
    });
    EXPECT_NE(found.thrown, nullptr);
    for (const auto& [rank, fate] : found.ranks) {
      EXPECT_THAT(fate.message,
                  AllOf(HasSubstr("missing' cannot be made"), HasSubstr("Make the folder")));
      EXPECT_TRUE(is_a<FileError>(fate.error)) << "on all ranks alike: " << rank;
    }
  }
}

TEST_F(OffloadedFailure, WeightsThatEveryRankKeepsAreNotOffloadedNorAreThoseInRows) {
  for (const ZeroStage stage : {ZeroStage::kGradients, ZeroStage::kParameters}) {
    ZeroCase c = draw_short(1, stage);
    c.settings.cut = stage == ZeroStage::kParameters ? ShardCut::kRows : ShardCut::kFlat;
    c.settings.offload = offload_late(Offload::kOptimizerAndParameters, 1000);
    on_ranks(c, [&](Communicator& dp) {
      EXPECT_THROW(static_cast<void>(train_zero(dp, c)), InternalError);
    });
  }
}

}  // namespace
}  // namespace ultra::zero
