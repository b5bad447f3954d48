// Checkpoints of many ranks: a failure of one is the same error on all, the training goes on while
// a checkpoint is written, and every element is saved once.
//
// Covers: chapters/04_zero/checkpoints/checkpoint_writer.hpp, chapters/04_zero/checkpoints/checkpoint_reader.hpp

#include <future>
#include <map>
#include <mutex>

#include "chapters/04_zero/checkpoints/checkpoint_files.hpp"
#include "common/checkpoint/json_file.hpp"
#include "common/checkpoint/safetensors/safetensors.hpp"
#include "tests/chapters/04_zero/checkpoints/checkpoint_faults.hpp"
#include "tests/support/ranks/rank_fates.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;
using ultra::test::Fates;
using ultra::test::is_a;
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

  /// What the ranks of a training end with that saves every step, when one rank has bad files.
  Fates fates_with(const ZeroCase& c, int guilty, const WatchedFiles::Hook& hook) const {
    Fates fates;
    quietly([&] {
      fates = ultra::test::fates_of(
          c.ranks,
          [&](Communicator& dp) {
            WatchedFiles files(dp.rank() == guilty ? hook : [](FileCall, const fs::path&) {});
            static_cast<void>(train_saving(dp, c, saving_to(folder.path("all"), 1), files));
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

// Failures ----------------------------------------------------------------------------------------

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
    expect_failure(c, fates_with(c, guilty, in_third), fault.reason,
                   {"step-00000001", "step-00000002"});
    EXPECT_EQ(losses_of(c, going_on_from(folder.path("all"))), expected) << "bitwise";
    if (launched_rank() == 0) fs::remove_all(folder.path("all"));
  }
}

TEST_F(CheckpointRanks, AFolderThatCannotBePreparedEndsAllBeforeTheFirstStep) {
  const ZeroCase c = draw_short();
  expect_failure(c, fates_with(c, 0, fail_at(FileCall::kMakeFolder, 2, "all", "Permission denied")),
                 "Permission denied", {});
}

TEST_F(CheckpointRanks, ARankThatCannotReadEndsAllWithTheSameError) {
  const ZeroCase c = draw_short();
  static_cast<void>(losses_of(c, saving_to(folder.path("all"), 1)));
  const int guilty = static_cast<int>(random.between(0, static_cast<std::size_t>(c.ranks) - 1));
  for (const char* file : {"training.json", "parts-", "model.safetensors", "optimizer-"}) {
    Fates fates;
    quietly([&] {
      fates = ultra::test::fates_of(
          c.ranks,
          [&](Communicator& dp) {
            WatchedFiles files(
                dp.rank() == guilty
                    ? fail_at(FileCall::kRead, 1, std::string("step-00000005/") + file, "bad disk")
                    : [](FileCall, const fs::path&) {});
            static_cast<void>(train_saving(dp, c, going_on_from(folder.path("all")), files));
          },
          in_rank_order());
    });
    SCOPED_TRACE(fmt::format("rank {} reads {}", guilty, file));
    expect_failure(
        c, fates, "bad disk",
        {"step-00000001", "step-00000002", "step-00000003", "step-00000004", "step-00000005"});
  }
}

/// A rank that fails in a step while a checkpoint is written: that one never becomes visible.
TEST_F(CheckpointRanks, ATrainingThatFailsLeavesWhatIsComplete) {
  const ZeroCase c = draw_short();
  const int guilty = c.ranks - 1;
  Fates fates;
  quietly([&] {
    fates = ultra::test::fates_of(
        c.ranks,
        [&](Communicator& dp) {
          StageChanges changes;
          changes.observer = observing([&](std::size_t step, nn::Model&) {
            if (step == 4 && dp.rank() == guilty) throw NumericError("a broken step");
          });
          static_cast<void>(train_saving(dp, c, saving_to(folder.path("all"), 1),
                                         checkpoint::posix_files(), changes));
        },
        in_rank_order());
  });
  for (const auto& [rank, fate] : fates.ranks)
    EXPECT_THAT(fate.message, HasSubstr("a broken step"));
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

// Meanwhile ---------------------------------------------------------------------------------------

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
}

// What is saved -----------------------------------------------------------------------------------

/// Expects that ranges cover [0, end) and none overlaps another.
void expect_tiles(std::vector<Range> ranges, std::size_t end) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::size_t next = 0;
  for (const Range& range : ranges) {
    EXPECT_EQ(range.begin, next);
    next = range.end;
  }
  EXPECT_EQ(next, end);
}

/// Every byte of every file is written by one rank, and every moment stands in one place.
void expect_saved_once(const fs::path& folder, int writers) {
  checkpoint::FileLayer& files = checkpoint::posix_files();
  std::map<std::string, std::vector<Range>> bytes;
  std::map<std::string, std::vector<Range>> moments;
  for (int writer = 0; writer < writers; ++writer) {
    const fs::path list = folder / parts_file(writer, writers);
    for (const WrittenPart& part : parse_parts(checkpoint::read_text(files, list), list.string())) {
      bytes[part.file].push_back({part.offset, part.offset + part.bytes});
    }
    const checkpoint::SafetensorsReader optimizer(files, folder / optimizer_file(writer, writers));
    for (const checkpoint::StoredTensor& tensor : optimizer.tensors()) {
      const auto name = parse_state_name(tensor.name);
      ASSERT_TRUE(name) << tensor.name;
      moments[name->state + "/" + name->parameter].push_back(
          {name->begin, name->begin + tensor.numel()});
    }
  }
  EXPECT_EQ(bytes.size(), 3U + static_cast<std::size_t>(writers));
  for (const auto& [file, ranges] : bytes) {
    SCOPED_TRACE(file);
    expect_tiles(ranges, fs::file_size(folder / file));
  }
  const checkpoint::SafetensorsReader weights(files, folder / kWeightsFile);
  EXPECT_EQ(moments.size(), 2 * weights.tensors().size());
  for (const checkpoint::StoredTensor& weight : weights.tensors()) {
    for (const char* kind : {"exp_avg/", "exp_avg_sq/"}) {
      SCOPED_TRACE(kind + weight.name);
      expect_tiles(moments[kind + weight.name], weight.numel());
    }
  }
}

TEST_F(CheckpointRanks, EveryElementIsSavedOnceAlsoWhenNodesHaveCopies) {
  int number = 0;
  for (const std::size_t node_size : {1U, 2U, 4U}) {
    for (const ZeroStage stage : kSharded) {
      ZeroCase c = draw(4, stage, random.pick({DType::kF32, DType::kF64}));
      c.node_size = node_size;
      c.options.steps = 2;
      SCOPED_TRACE(c.str());
      const std::string name = std::to_string(number++);
      static_cast<void>(losses_of(c, saving_to(folder.path(name), 1)));
      if (launched_rank() == 0) expect_saved_once(folder.path(name) + "/step-00000002", c.ranks);
    }
  }
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

/// A worker that does not know of the last step that was made.
class ForgetsAStep : public train::Worker {
 public:
  explicit ForgetsAStep(std::unique_ptr<train::Worker> worker) : worker_(std::move(worker)) {}
  train::StepOutcome step(const train::StepPlan& plan) override { return worker_->step(plan); }
  std::vector<train::StepMetrics> history() override {
    std::vector<train::StepMetrics> steps = worker_->history();
    steps.pop_back();
    return steps;
  }
  std::size_t skipped_steps() const override { return worker_->skipped_steps(); }
  std::size_t parameter_count() const override { return worker_->parameter_count(); }

 private:
  std::unique_ptr<train::Worker> worker_;
};

/// The comparisons of losses here would notice a batch that is trained on twice.
TEST_F(CheckpointRanks, ARepeatedBatchWouldBeNoticed) {
  const ZeroCase c = draw_short();
  const std::vector<double> expected = losses_of(c, saving_to(folder.path("all"), 1));
  std::vector<double> found;
  StageChanges changes;
  changes.worker = [](std::unique_ptr<train::Worker> worker, const train::TrainerState&) {
    return std::make_unique<ForgetsAStep>(std::move(worker));
  };
  on_ranks(c, [&](Communicator& dp) {
    const auto result = train_saving(dp, c, going_on_from(folder.path("all") + "/step-00000003"),
                                     checkpoint::posix_files(), changes);
    if (dp.rank() == 0) found = ultra::test::losses_of(result);
  });
  if (launched_rank() != 0) return;
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i] == expected[i], i < 2) << "step " << i + 1;
  }
}

}  // namespace
}  // namespace ultra::zero
