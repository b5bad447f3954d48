#include "chapters/04_zero/checkpoints/checkpoint_folder.hpp"

#include <sys/stat.h>

#include <filesystem>

#include "common/checkpoint/models/config_json.hpp"
#include "tests/chapters/04_zero/checkpoints/checkpoint_faults.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

namespace fs = std::filesystem;

TEST(StepOf, ReadsTheNamesOfCheckpointsAlone) {
  EXPECT_EQ(step_of("step-00000000"), 0U);
  EXPECT_EQ(step_of("step-00000100"), 100U);
  EXPECT_EQ(step_of("step-99999999"), 99999999U);
  EXPECT_EQ(step_of("step-100000000"), 100000000U);
  for (const char* name :
       {"", "step-", "step-1", "step-000000001", "step-0100000000", "step-0000010x",
        "step--0000001", "step-+0000001", "step- 0000001", "Step-00000001",
        ".unfinished-step-00000001", "step-00000001 ", "step-18446744073709551616", "00000001"}) {
    EXPECT_FALSE(step_of(name)) << name;
  }
}

class CheckpointFolderTest : public ::testing::Test {
 protected:
  /// Makes a complete checkpoint.
  void save(std::size_t step) const {
    fs::create_directories(folder.checkpoint(step));
    temporary.write("all/" + folder.checkpoint(step).filename().string() + "/training.json", "{}");
  }

  [[nodiscard]] std::vector<std::string> names() const { return files.list(path); }

  [[nodiscard]] std::string find_message(const fs::path& where) const {
    return message_of<FileError>([&] { static_cast<void>(find_checkpoint(files, where)); });
  }

  test::TemporaryFolder temporary;
  fs::path path = temporary.path("all");
  checkpoint::FileLayer& files = checkpoint::posix_files();
  CheckpointFolder folder{files, path};
};

TEST_F(CheckpointFolderTest, ListsTheStepsInTheirOrder) {
  EXPECT_THAT(folder.steps(), IsEmpty()) << "not there";
  for (const std::size_t step : {100000000U, 7U, 99999999U}) save(step);
  fs::create_directories(folder.staging(30, "run"));
  temporary.write("all/notes.txt", "");
  temporary.write("all/step-8", "");
  EXPECT_THAT(folder.steps(), ElementsAre(7, 99999999, 100000000)) << "by number, not by name";
}

TEST_F(CheckpointFolderTest, PreparingRemovesWhatIsLeftAndNothingElse) {
  save(1);
  fs::create_directories(folder.staging(2, "run"));
  temporary.write("all/" + folder.staging(2, "run").filename().string() + "/model.safetensors",
                  "half");
  temporary.write("all/.unfinished-step-00000003/training.json", "{}");
  temporary.write("all/.removed-step-00000003/training.json", "{}");
  temporary.write("all/.removed-step-00000000/training.json", "{}");
  temporary.write("all/.hidden", "the user's");
  temporary.write("all/notes.txt", "the user's");
  folder.prepare();
  EXPECT_THAT(names(), ElementsAre(".hidden", "notes.txt", "step-00000001"));
  EXPECT_TRUE(fs::exists(folder.checkpoint(1) / "training.json"));
}

/// A rank of a run that was killed lives a moment longer, and writes one more file.
TEST_F(CheckpointFolderTest, WhoStillWritesToWhatIsLeftFindsNoPlace) {
  const fs::path left = folder.staging(2, "killed");
  fs::create_directories(left);
  bool tried = false;
  test::WatchedFiles late([&](test::FileCall call, const fs::path& removed) {
    if (call != test::FileCall::kRemove) return;
    if (!removed.filename().string().starts_with(".removed-")) return;
    tried = true;
    EXPECT_THROW(static_cast<void>(files.create(left / "optimizer")), FileError);
  });
  CheckpointFolder(late, path).prepare();
  EXPECT_TRUE(tried);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(CheckpointFolderTest, ARelativeFolderIsPreparedToo) {
  const fs::path before = fs::current_path();
  fs::current_path(temporary.path());
  CheckpointFolder relative(files, "here");
  EXPECT_NO_THROW(relative.prepare());
  EXPECT_NO_THROW(CheckpointFolder(files, "there/").prepare());
  EXPECT_NO_THROW(CheckpointFolder(files, ".").prepare());
  fs::current_path(before);
  EXPECT_THAT(temporary.names(), ElementsAre("here", "there"));
}

TEST_F(CheckpointFolderTest, KeepsTheNewest) {
  for (const std::size_t step : {5U, 100000000U, 1U, 30U, 4U}) save(step);
  temporary.write("all/notes.txt", "");
  folder.keep_newest(9);
  EXPECT_EQ(folder.steps().size(), 5U);
  folder.keep_newest(5);
  EXPECT_EQ(folder.steps().size(), 5U);
  folder.keep_newest(2);
  EXPECT_THAT(names(), ElementsAre("notes.txt", "step-00000030", "step-100000000"));
  folder.keep_newest(1);
  EXPECT_THAT(folder.steps(), ElementsAre(100000000));
}

TEST_F(CheckpointFolderTest, FindsTheNewestOrTheFolderItself) {
  for (const std::size_t step : {3U, 100000000U, 20U}) save(step);
  EXPECT_EQ(find_checkpoint(files, path), folder.checkpoint(100000000));
  EXPECT_EQ(find_checkpoint(files, folder.checkpoint(3)), folder.checkpoint(3));
  temporary.write("all/notes.txt", "");
  EXPECT_EQ(find_checkpoint(files, path), folder.checkpoint(100000000));
}

TEST_F(CheckpointFolderTest, FindsNothingInAnEmptyFolder) {
  fs::create_directory(path);
  EXPECT_EQ(find_checkpoint(files, path), std::nullopt);
  fs::create_directory(folder.staging(4, "run"));
  EXPECT_EQ(find_checkpoint(files, path), std::nullopt) << "what is unfinished is nothing";
}

TEST_F(CheckpointFolderTest, RefusesWhatHasNoCheckpoint) {
  EXPECT_THAT(find_message(path),
              AllOf(HasSubstr("'" + path.string() + "' does not exist"), HasSubstr("--resume")));
  temporary.write("all/notes.txt", "");
  EXPECT_THAT(find_message(path), AllOf(HasSubstr(path.string()), HasSubstr("\"notes.txt\""),
                                        HasSubstr("--checkpoint")));
  EXPECT_THAT(find_message(path / "notes.txt"), HasSubstr("Not a directory"));
}

TEST_F(CheckpointFolderTest, NamesInMessagesAreEscapedAndShort) {
  temporary.write("all/\x1b[31m" + std::string(200, 'x'), "");
  EXPECT_THAT(find_message(path), AllOf(HasSubstr("\\u001b[31m"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(find_message(path), Not(HasSubstr(std::string(100, 'x'))));
}

TEST_F(CheckpointFolderTest, ACheckpointWithoutItsRecordIsAPart) {
  save(3);
  const auto expect_part = [&](std::size_t step, const fs::path& where) {
    EXPECT_THAT(find_message(where),
                AllOf(HasSubstr("'" + folder.checkpoint(step).string()),
                      HasSubstr("has no file training.json"), HasSubstr("a part of a checkpoint"),
                      HasSubstr("Resume another one")));
  };
  temporary.write("all/step-00000007/model.safetensors", "");
  for (const fs::path& where : {path, folder.checkpoint(7), folder.checkpoint(7) / ""}) {
    expect_part(7, where);
  }
  temporary.write("all/step-00000008", "no folder");
  expect_part(8, path);
}

TEST_F(CheckpointFolderTest, AModelOfAnotherProgramIsNoCheckpoint) {
  temporary.write("all/config.json", checkpoint::model_config_json(
                                         {.hidden_size = 2048, .num_layers = 22}, DType::kF32));
  temporary.write("all/model.safetensors", "");
  EXPECT_THAT(
      find_message(path),
      AllOf(HasSubstr("'" + path.string() + "' has a model"),
            HasSubstr("a Llama of 22 layers and hidden size 2048"), HasSubstr("training.json"),
            HasSubstr("moments of the optimizer are missing"), HasSubstr("--checkpoint")));
  for (const std::string& config : {std::string("{}"), std::string(100'000, '[')}) {
    temporary.write("all/config.json", config);
    EXPECT_THAT(find_message(path), HasSubstr("' has a model and no checkpoint")) << "of any kind";
  }
}

}  // namespace
}  // namespace ultra::zero
