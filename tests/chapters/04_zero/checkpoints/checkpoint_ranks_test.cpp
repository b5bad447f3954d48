// Checkpoints of many ranks: a failure of one is the same error on all, the training goes on while
// a checkpoint is written, and any layout loads what any other has saved.
//
// Covers: chapters/04_zero/checkpoints/checkpoint_writer.hpp, chapters/04_zero/checkpoints/checkpoint_reader.hpp
// Covers: chapters/04_zero/checkpoints/training_state.hpp

#include <future>
#include <mutex>

#include "tests/chapters/04_zero/checkpoints/checkpoint_faults.hpp"
#include "tests/support/ranks/rank_fates.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;
using Names = std::vector<std::string>;

namespace fs = std::filesystem;

class CheckpointRanks : public ZeroTest {
 protected:
  /// Five steps on 2 to 4 ranks.
  ZeroCase draw_short(DType dtype = DType::kF32) {
    ZeroCase c = draw(static_cast<int>(random.between(2, 4)), draw_stage(), dtype);
    c.options.steps = 5;
    return c;
  }

  ZeroStage draw_stage() {
    return random.pick({ZeroStage::kOptimizer, ZeroStage::kGradients, ZeroStage::kParameters});
  }

  /// The losses of a run without checkpoints, of one that saves, or of one that goes on.
  static std::vector<double> losses_of(const ZeroCase& c, const CheckpointOptions& options = {}) {
    std::vector<double> found;
    on_ranks(c, [&](Communicator& dp) {
      const auto result = options.used() ? train_saving(dp, c, options) : train_zero(dp, c);
      if (dp.rank() == 0) found = ultra::test::losses_of(result);
      expect_same_on_all(dp, ultra::test::losses_of(result));
    });
    return found;
  }

  /// What the ranks of a training end with when one rank has bad files.
  static Fates fates_with(const ZeroCase& c, const CheckpointOptions& options, int guilty,
                          const WatchedFiles::Hook& hook, const StageChanges& changes = {}) {
    Fates fates;
    quietly([&] {
      fates = fates_of(
          c.ranks,
          [&](Communicator& dp) {
            const bool is_guilty = dp.rank() == guilty;
            WatchedFiles files(is_guilty ? hook : [](FileCall, const fs::path&) {});
            train_saving(dp, c, options, files, is_guilty ? changes : StageChanges());
          },
          in_rank_order());
    });
    return fates;
  }

  /// All ranks say the same, and the checkpoints before are as they were.
  void expect_failure(const ZeroCase& c, const Fates& fates, const std::string& reason,
                      const Names& complete) {
    SCOPED_TRACE(c.str());
    EXPECT_NE(fates.thrown, nullptr);
    std::string first;
    for (const auto& [rank, fate] : fates.ranks) {
      SCOPED_TRACE(fmt::format("rank {}: {}", rank, fate.message));
      EXPECT_TRUE(is_a<FileError>(fate.error));
      EXPECT_THAT(fate.message, HasSubstr(reason));
      if (first.empty()) first = fate.message;
      EXPECT_EQ(fate.message, first);
    }
    if (launched_rank() != 0) return;
    EXPECT_EQ(folder.names("all"), complete);
  }

  SharedFolder folder;
};

struct Fault {
  FileCall call;
  const char* part;  ///< of the path
  const char* reason;
  bool rank_0_only;
};

TEST_F(CheckpointRanks, ARankThatCannotWriteEndsAllWithTheSameError) {
  for (const Fault& fault : {Fault{FileCall::kWrite, ".safetensors", "No space left", false},
                             Fault{FileCall::kSync, "optimizer-", "Input/output error", false},
                             Fault{FileCall::kSync, "parts-", "Input/output error", false},
                             Fault{FileCall::kWrite, "parts-", "No space left", false},
                             Fault{FileCall::kCreate, "optimizer-", "Disk quota", false},
                             Fault{FileCall::kClose, "parts-", "Stale file", false},
                             Fault{FileCall::kOpen, "optimizer-", "Too many open", false},
                             Fault{FileCall::kMakeFolder, ".unfinished-step", "No space", true},
                             Fault{FileCall::kResize, "model", "No space left", true},
                             Fault{FileCall::kSyncFolder, ".unfinished", "Input/output", true},
                             Fault{FileCall::kRename, "step-", "Input/output", true}}) {
    const ZeroCase c = draw_short();
    const auto last = static_cast<std::size_t>(c.ranks) - 1;
    const int guilty = fault.rank_0_only ? 0 : static_cast<int>(random.between(0, last));
    // Writes of the third checkpoint's files; each rank has several of them.
    const int n = fault.call == FileCall::kWrite && std::string(fault.part) == ".safetensors"
                      ? static_cast<int>(random.between(1, 2))
                      : 1;
    SCOPED_TRACE(fmt::format("rank {}: call {} of '{}': {}", guilty, n, fault.part, fault.reason));
    const std::vector<double> expected = losses_of(c);
    auto in_third = [hook = fail_at(fault.call, n, fault.part, fault.reason)](
                        FileCall call, const fs::path& path) {
      if (path.string().find("step-00000003") != std::string::npos) hook(call, path);
    };
    expect_failure(c, fates_with(c, saving_to(folder.path("all"), 1), guilty, in_third),
                   fault.reason, {"step-00000001", "step-00000002"});
    EXPECT_EQ(losses_of(c, going_on_from(folder.path("all"))), expected) << "bitwise";
    if (launched_rank() == 0) fs::remove_all(folder.path("all"));
  }
}

TEST_F(CheckpointRanks, AFolderThatCannotBePreparedEndsAllBeforeTheFirstStep) {
  const ZeroCase c = draw_short();
  expect_failure(c,
                 fates_with(c, saving_to(folder.path("all"), 1), 0,
                            fail_at(FileCall::kMakeFolder, 2, "all", "Permission denied")),
                 "Permission denied", {});
}

TEST_F(CheckpointRanks, ARankThatCannotReadEndsAllWithTheSameError) {
  const ZeroCase c = draw_short();
  static_cast<void>(losses_of(c, saving_to(folder.path("all"), 1)));
  const int guilty = static_cast<int>(random.between(0, static_cast<std::size_t>(c.ranks) - 1));
  for (const char* file : {"training.json", "parts-", "model.safetensors", "optimizer-"}) {
    SCOPED_TRACE(fmt::format("rank {} reads {}", guilty, file));
    expect_failure(
        c,
        fates_with(c, going_on_from(folder.path("all")), guilty,
                   fail_at(FileCall::kRead, 1, std::string("step-00000005/") + file, "bad disk")),
        "bad disk",
        {"step-00000001", "step-00000002", "step-00000003", "step-00000004", "step-00000005"});
  }
}

/// A rank that fails in a step while a checkpoint is written: that one never becomes visible.
TEST_F(CheckpointRanks, ATrainingThatFailsLeavesWhatIsComplete) {
  const ZeroCase c = draw_short();
  StageChanges changes;
  changes.observer = observing([](std::size_t step, nn::Model&) {
    if (step == 4) throw NumericError("a broken step");
  });
  const Fates fates = fates_with(
      c, saving_to(folder.path("all"), 1), c.ranks - 1, [](FileCall, const fs::path&) {}, changes);
  for (const auto& [rank, fate] : fates.ranks) {
    EXPECT_THAT(fate.message, HasSubstr("a broken step"));
  }
  if (launched_rank() == 0) {
    Names visible;
    for (const std::string& name : folder.names("all")) {
      if (!name.starts_with('.')) visible.push_back(name);
    }
    ASSERT_GE(visible.size(), 2U) << "the third may have been under way";
    EXPECT_LE(visible.size(), 3U);
  }
  EXPECT_EQ(losses_of(c, going_on_from(folder.path("all"))), losses_of(c)) << "bitwise";
}

/// Files of one rank that wait for the sixth step: the third step's checkpoint cannot appear
/// before.
TEST_F(CheckpointRanks, TheTrainingGoesOnWhileACheckpointIsWritten) {
  ZeroCase c = draw_short();
  c.options.steps = 7;
  const int slow = c.ranks - 1;
  const std::string checkpoint = folder.path("all") + "/step-00000003";
  const std::vector<double> expected = losses_of(c);
  std::vector<std::string> events;  // of the slow rank
  std::vector<double> found;
  on_ranks(c, [&](Communicator& dp) {
    std::promise<void> release;
    const std::shared_future<void> released = release.get_future().share();
    std::mutex mutex;
    const auto note = [&](std::string event) {
      if (dp.rank() != slow) return;
      const std::scoped_lock lock(mutex);
      events.push_back(std::move(event));
    };
    WatchedFiles files([&](FileCall call, const fs::path& path) {
      if (dp.rank() != slow || call != FileCall::kWrite) return;
      const bool of_third = path.string().find("step-00000003") != std::string::npos;
      if (!of_third || !path.filename().string().starts_with("optimizer-")) return;
      released.wait();
      const std::scoped_lock lock(mutex);
      if (events.back() != "written") events.emplace_back("written");
    });
    StageChanges changes;
    changes.observer = observing([&](std::size_t step, nn::Model&) {
      note(fmt::format("step {}{}", step, fs::exists(checkpoint) ? " with" : ""));
      if (step != 6) return;
      note("released");
      release.set_value();
    });
    const auto result = train_saving(dp, c, saving_to(folder.path("all"), 3), files, changes);
    if (dp.rank() == 0) found = ultra::test::losses_of(result);
  });
  const std::optional<int> launched = launched_world_size();
  if (!launched || launched_rank() == slow) {
    EXPECT_THAT(events, ElementsAre("step 1", "step 2", "step 3", "step 4", "step 5", "step 6",
                                    "released", "written", "step 7 with"));
  }
  if (launched_rank() == 0) {
    EXPECT_EQ(found, expected) << "bitwise";
    EXPECT_THAT(folder.names("all"),
                ElementsAre("step-00000003", "step-00000006", "step-00000007"));
  }
  EXPECT_EQ(losses_of(c, going_on_from(checkpoint)), expected) << "it holds the third step's state";
}

/// Models of odd sizes, whose shards begin and end inside parameters.
TEST_F(CheckpointRanks, AnyLayoutLoadsWhatAnyOtherHasSaved) {
  for (int attempt = 0; attempt < 6; ++attempt) {
    ZeroCase c = draw(static_cast<int>(random.between(1, 5)), draw_stage(), DType::kF64);
    c.options.steps = 4;
    c.options.global_batch = random.between(8, 11);
    const std::string name = std::to_string(attempt);
    const std::vector<double> expected = losses_of(c, saving_to(folder.path(name), 1));
    const std::string from = c.str();
    for (int next = 0; next < 2; ++next) {
      c.ranks = static_cast<int>(random.between(1, 8));
      c.settings = draw_settings(draw_stage());
      c.node_size.reset();
      if (c.ranks % 2 == 0 && random.between(0, 1) == 1) c.node_size = 2;
      SCOPED_TRACE("saved by " + from + ", loaded by " + c.str());
      const std::vector<double> found = losses_of(
          c, going_on_from(fmt::format("{}/step-{:08}", folder.path(name), random.between(1, 3))));
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(found[i], expected[i], 1e-10 * expected[i]) << "step " << i + 1;
      }
    }
  }
}

}  // namespace
}  // namespace ultra::zero
