// The executable 04_zero with checkpoints, started as a user starts it: a training that stops and
// goes on has the losses of one that never stopped.
//
// Covers: chapters/04_zero/checkpoints/checkpointed_worker.hpp

#include <sys/stat.h>

#include "tests/chapters/04_zero/checkpoints/checkpoint_program.hpp"
#include "tests/support/files/llama_folder.hpp"
#include "tests/support/training/mask_file.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

/// Sums in another order, in f64.
constexpr double kAnotherOrder = 1e-10;

using CheckpointProgram = CheckpointProgramTest;

class BadCheckpointRun : public CheckpointProgramTest {
 protected:
  /// Three checkpoints of 4 ranks.
  void SetUp() override { static_cast<void>(save_all(kThreeSteps, kFourShards)); }

  /// Refused before a step is made, and the checkpoints are as before.
  void refused_intact(const Changes& changes, const Words& parts, const Words& flags) const {
    const auto before = tree_of(disk.path());
    failed(changes, 2, parts, flags);
    EXPECT_TRUE(tree_of(disk.path()) == before) << "the checkpoints have changed";
  }

  const Changes kThreeSteps = with(kSixSteps, "--steps", "3");
};

// Losses ------------------------------------------------------------------------------------------

TEST_F(CheckpointProgram, InTheSameLayoutNotABitChanges) {
  int number = 0;
  for (const char* dtype : {"f32", "f64"}) {
    const Changes base = with(kSixSteps, "--dtype", dtype);
    for (const Words& layout :
         {Words{"--dp", "1"}, Words{"--dp", "3", "--zero", "0"}, Words{"--dp", "3", "--zero", "1"},
          Words{"--dp", "2", "--zero", "2"}, kFourShards,
          Words{"--dp", "4", "--zero", "3", "--hybrid-shard", "2"},
          Words{"--dp", "2", "--zero", "2", "--optimizer", "sgd", "--offload", "optimizer"},
          Words{"--dp", "2", "--zero", "1", "--optimizer", "muon", "--offload", "optimizer"},
          Words{"--dp", "3", "--zero", "3", "--optimizer", "muon", "--shards", "rows"}}) {
      SCOPED_TRACE(dtype + ::testing::PrintToString(layout));
      const std::string name = std::to_string(number++);
      const json expected = losses_of(base, layout);
      EXPECT_EQ(save_all(base, layout, name), expected) << "saving has changed the losses";
      for (const std::size_t step : {random.between(1, 5), std::size_t{6}}) {
        EXPECT_EQ(losses_of(base, joined(layout, {"--resume", saved_step(step, name)})), expected)
            << "from step " << step;
      }
    }
  }
}

/// Without clipping, whose norm adds up shard by shard, only the files could make a difference.
TEST_F(CheckpointProgram, RowsGoOnAsFlatShardsAndFlatShardsAsRowsBitForBit) {
  const Changes base = with(kSixSteps, "--clip", "0");
  const json expected = losses_of(base, kFourShards);
  const Words rows = joined(kFourShards, {"--shards", "rows"});
  EXPECT_EQ(save_all(base, kFourShards, "flat"), expected);
  EXPECT_EQ(save_all(base, rows, "rows"), expected);
  const std::size_t step = random.between(1, 5);
  EXPECT_EQ(losses_of(base, joined(rows, {"--resume", saved_step(step, "flat")})), expected);
  EXPECT_EQ(losses_of(base, joined(kFourShards, {"--resume", saved_step(step, "rows")})), expected);
}

// The field's own files -------------------------------------------------------------------------

class FromAFolder : public CheckpointProgramTest {
 protected:
  FromAFolder() {
    write_llama_folder(disk, "model",
                       {.model = {.vocab_size = 300,
                                  .hidden_size = 8,
                                  .num_layers = 1,
                                  .num_heads = 4,
                                  .num_kv_heads = 2,
                                  .ffn_hidden_size = 12,
                                  .max_seq_len = 999,
                                  .rope_theta = 500.0,
                                  .tied_embeddings = true},
                        .type = checkpoint::StoredType::kBF16},
                       random);
    disk.write("model/tokenizer.json", "{\"version\": \"1.0\"}");
  }

  static Changes validated(Changes changes) {
    changes["--steps"] = "4";
    changes["--val-every"] = "2";
    changes["--val-batches"] = "1";
    changes["--val-data"] = kText;
    return changes;
  }

  const Changes kShort = validated(kSixSteps);
};

TEST_F(FromAFolder, GoesOnWithItsSizesItsValidationsAndItsTokenizer) {
  const Words init = {"--init", disk.path("model")};
  const json expected = summary_of(kShort, init);
  std::filesystem::remove(folder.path("metrics.jsonl"));
  const json saved_run = save_all(kShort, joined(kFourShards, init));
  expect_near_losses(saved_run, expected.at("losses"), kAnotherOrder);
  const json resumed = summary_of(kShort, joined(init, {"--dp", "2", "--resume", saved_step(2),
                                                        "--checkpoint", saved("again")}));
  expect_near_losses(resumed.at("losses"), expected.at("losses"), kAnotherOrder);
  ASSERT_EQ(resumed.at("validation_losses").size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(resumed.at("validation_losses")[i].at("loss").get<double>(),
                expected.at("validation_losses")[i].at("loss").get<double>(), 1e-9);
  }
  for (const std::string& step : {saved_step(4), saved_step(4, "again")}) {
    EXPECT_EQ(read_file(step + "/tokenizer.json"), "{\"version\": \"1.0\"}");
    const json config = json::parse(read_file(step + "/config.json"));
    EXPECT_EQ(config.at("max_position_embeddings"), 999) << "not the --seq of the training";
    EXPECT_EQ(config.at("torch_dtype"), "float64");
  }
}

// Folders -----------------------------------------------------------------------------------------

TEST_F(CheckpointProgram, SavesEverySoManyStepsAndAtTheEnd) {
  const auto save = [&](const std::string& name, const Words& flags) {
    static_cast<void>(
        losses_of(kSixSteps, joined(joined(kFourShards, {"--checkpoint", saved(name)}), flags)));
    return names(name);
  };
  EXPECT_THAT(save("end", {}), ElementsAre(step_name(6)));
  EXPECT_THAT(save("four", {"--save-every", "4"}), ElementsAre(step_name(4), step_name(6)));
  EXPECT_THAT(save("three", {"--save-every", "3"}), ElementsAre(step_name(3), step_name(6)));
  EXPECT_THAT(save("rare", {"--save-every", "99"}), ElementsAre(step_name(6)));
  EXPECT_THAT(save("keep", {"--save-every", "1", "--keep", "2"}),
              ElementsAre(step_name(5), step_name(6)));
  EXPECT_THAT(save("one", {"--save-every", "1", "--keep", "1"}), ElementsAre(step_name(6)));
  EXPECT_THAT(save("many", {"--save-every", "2", "--keep", "9"}),
              ElementsAre(step_name(2), step_name(4), step_name(6)));
}

TEST_F(CheckpointProgram, AfterTheLastStepNothingIsLeftToDo) {
  const json expected = save_all(kSixSteps, kFourShards);
  const auto before = tree_of(saved());
  for (const char* stage : {"0", "1", "2", "3"}) {
    const json summary = summary_of(
        kSixSteps, {"--dp", "3", "--zero", stage, "--checkpoint", saved(), "--resume", saved()});
    EXPECT_EQ(summary.at("losses"), expected) << "bitwise: no step is made";
    EXPECT_EQ(summary.at("earlier_steps"), 6);
    const std::vector<json> events = events_of(folder.path("metrics.jsonl"));
    EXPECT_EQ(events.size(), 7U) << "one per step, and the summary";
    // A table without a measurement says nothing about the formulas.
    EXPECT_THAT(run(kSixSteps, {"--dp", "3", "--zero", stage, "--resume", saved()}).out,
                AllOf(HasSubstr("Goes on from '" + saved_step(6) + "': 6 of 6 steps"),
                      Not(HasSubstr("-100"))));
  }
  EXPECT_TRUE(tree_of(saved()) == before);
}

TEST_F(CheckpointProgram, AFolderThatIsEmptyOrThatItWillMakeBeginsATraining) {
  const json expected = losses_of(kSixSteps, kFourShards);
  std::filesystem::create_directory(saved());
  for (const std::string& path : {saved(), saved("a") + "/b/c"}) {
    const Words flags = joined(kFourShards, {"--checkpoint", path, "--resume", path});
    const ProcessResult first = run(kSixSteps, flags);
    expect_success(first);
    EXPECT_THAT(first.out, HasSubstr("There is no checkpoint in '" + path +
                                     "' yet: the training begins at step 1."));
    EXPECT_EQ(losses_of(kSixSteps, flags), expected) << "goes on from the end";
  }
}

/// What may change does so with a word about it.
TEST_F(CheckpointProgram, SaysWhatHasChangedSinceTheCheckpoint) {
  static_cast<void>(save_all(with(kSixSteps, "--steps", "4"), kFourShards));
  const Words resumed = {"--dp", "2", "--resume", saved()};
  EXPECT_THAT(run(with(kSixSteps, "--steps", "4"), resumed).out, Not(HasSubstr("Resumed with")));
  Changes changed = {
      {"--lr", "0.001"}, {"--warmup", "3"}, {"--clip", "0.25"}, {"--micro-batch", "4"}};
  changed.insert(kSixSteps.begin(), kSixSteps.end());
  const std::string out = run(changed, resumed).out;
  for (const char* flag :
       {"--steps 6", "--lr 0.001", "--warmup 3", "--clip 0.25", "--micro-batch 4"}) {
    EXPECT_THAT(out, HasSubstr(fmt::format("\nResumed with {}; the checkpoint's run had ", flag)));
  }
}

TEST_F(CheckpointProgram, TheSummaryHoldsItsFlags) {
  const json config =
      summary_of(kSixSteps, {"--checkpoint", saved(), "--save-every", "3", "--keep", "2"})
          .at("config");
  EXPECT_EQ(config.at("checkpoint"), saved());
  EXPECT_EQ(config.at("save_every"), 3);
  EXPECT_EQ(config.at("keep"), 2);
  EXPECT_EQ(config.at("resume"), "");
  EXPECT_FALSE(summary_of(kSixSteps).at("config").contains("checkpoint"));
}

/// A path is bytes, and need not be UTF-8.
TEST_F(CheckpointProgram, ATextWhoseNameIsNoUtf8) {
  const std::string odd = disk.path("text-\xff.txt");
  std::filesystem::copy_file(kText, odd);
  const Changes base = with(kSixSteps, "--data", odd);
  const ProcessResult result = run(base, joined(kFourShards, {"--checkpoint", saved()}));
  EXPECT_EQ(result.exit_code, run(base, kFourShards).exit_code) << result.err;
  EXPECT_THAT(names(), ElementsAre(step_name(6)));
}

// Refused -----------------------------------------------------------------------------------------

TEST_F(BadCheckpointRun, TheCheckpointOfAnotherTraining) {
  const Changes others = {{"--layers", "2"},      {"--hidden", "16"}, {"--heads", "2"},
                          {"--kv-heads", "4"},    {"--ffn", "32"},    {"--seq", "8"},
                          {"--dtype", "f32"},     {"--seed", "2"},    {"--global-batch", "10"},
                          {"--optimizer", "muon"}};
  for (const auto& [flag, value] : others) {
    refused_intact(with(kSixSteps, flag, value),
                   {saved_step(3), "is of another training", flag, "this run has ", value,
                    flag == "--optimizer" ? "Give what it was written with" : "Give " + flag},
                   {"--dp", "2", "--zero", "3", "--resume", saved()});
  }
  const std::string text = read_file(kText);
  std::string changed = text;
  changed[random.between(0, text.size() - 1)] ^= 1;
  for (const std::string& other : {text + "1", changed}) {
    refused_intact(with(kSixSteps, "--data", disk.write("other.txt", other)),
                   {saved_step(3), "is of another training", "the texts differ", "--data"},
                   {"--dp", "2", "--resume", saved()});
  }
}

TEST_F(BadCheckpointRun, TheCheckpointOfATrainingOfOtherTokens) {
  const std::string mask = disk.write("mask", random_mask(random, read_file(kText).size(), 0.9));
  refused_intact(with(kSixSteps, "--mask", mask),
                 {"is of another training", "this run has", "with the mask " + mask,
                  "the texts differ", "--mask"},
                 {"--dp", "2", "--resume", saved()});
}

TEST_F(BadCheckpointRun, FewerStepsThanTheCheckpointHas) {
  refused_intact(with(kSixSteps, "--steps", "2"),
                 {saved_step(3), "is of step 3", "--steps 2 ends before"},
                 {"--dp", "3", "--zero", "2", "--resume", saved()});
}

TEST_F(BadCheckpointRun, AFolderWithNewerCheckpoints) {
  refused_intact(kSixSteps, {saved(), "holds a checkpoint of step 3", "--resume"},
                 {"--dp", "2", "--checkpoint", saved()});
  refused_intact(kSixSteps, {saved(), "holds a checkpoint of step 3", "begins behind step 2"},
                 {"--dp", "2", "--checkpoint", saved(), "--resume", saved_step(2)});
  static_cast<void>(save_all(with(kSixSteps, "--steps", "1"), kFourShards, "other"));
  refused_intact(kSixSteps, {saved(), "holds a checkpoint of step 3", "begins behind step 1"},
                 {"--dp", "2", "--checkpoint", saved(), "--resume", saved("other")});
}

TEST_F(BadCheckpointRun, FoldersThatCannotBeUsed) {
  const std::string missing = saved("missing");
  refused_intact(kSixSteps, {"'" + missing + "' does not exist", "--resume"},
                 {"--dp", "2", "--checkpoint", saved("new"), "--resume", missing});
  EXPECT_FALSE(std::filesystem::exists(saved("new")));
  const std::string file = disk.write("file", "text");
  const std::string locked = saved("locked");
  ASSERT_EQ(mkdir(locked.c_str(), 0555), 0);
  for (const std::string below : {"", "/below"}) {
    refused_intact(kSixSteps, {file + below, "Not a directory"},
                   {"--dp", "2", "--checkpoint", file + below});
    refused_intact(kSixSteps, {locked + below, "Permission denied", "permissions"},
                   {"--dp", "2", "--checkpoint", locked + below});
  }
}

TEST_F(BadCheckpointRun, TrainingsWithMoreStateThanCheckpointsHold) {
  for (const Words& flags : {Words{"--checkpoint", saved("new")}, Words{"--resume", saved()}}) {
    for (const char* how : {"int8", "topk:0.1"}) {
      refused(kSixSteps, {"checkpoints do not go together with --compress"},
              joined(flags, {"--dp", "2", "--compress", how}));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(saved("new")));
}

}  // namespace
}  // namespace ultra::zero
