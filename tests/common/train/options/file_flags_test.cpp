#include "common/train/options/file_flags.hpp"

#include <filesystem>

#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::train {
namespace {

namespace fs = std::filesystem;

std::string refusal(const std::vector<FileFlag>& files) {
  return test::message_of<ConfigError>([&] { expect_different_files(files); });
}

class FileFlags : public ::testing::Test {
 protected:
  FileFlags() { folder.write("text", "mine"); }

  [[nodiscard]] FileFlag data(const std::string& name) const {
    return {"--data", folder.path(name), FileUse::kRead};
  }
  [[nodiscard]] FileFlag metrics(const std::string& name) const {
    return {"--metrics", folder.path(name), FileUse::kWritten};
  }
  [[nodiscard]] FileFlag trace(const std::string& name) const {
    return {"--trace", folder.path(name), FileUse::kWritten};
  }
  [[nodiscard]] FileFlag checkpoint(const std::string& name) const {
    return {"--checkpoint", folder.path(name), FileUse::kFolder};
  }

  test::TemporaryFolder folder;
};

TEST_F(FileFlags, AreRefusedWhenOneReplacesWhatAnotherNames) {
  fs::create_symlink("text", folder.path("link"));
  fs::create_hard_link(folder.path("text"), folder.path("hard"));
  test::expect_parts(refusal({data("text"), metrics("text")}),
                     {"--data and --metrics both name", "Give each a file of its own"});
  for (const char* spelling : {"./text", "link", "hard"}) {
    test::expect_parts(refusal({data("text"), metrics(spelling)}),
                       {"--data '" + folder.path("text") + "'",
                        "--metrics '" + folder.path(spelling) + "'", "are one file"});
  }
  EXPECT_THAT(refusal({metrics("new"), trace("./new")}), ::testing::HasSubstr("are one file"));
  EXPECT_THAT(refusal({metrics("new"), checkpoint("new")}), ::testing::HasSubstr("both name"));
  EXPECT_THAT(refusal({data("a"), metrics("b"), checkpoint("c"), trace("b")}),
              ::testing::StartsWith("--metrics and --trace"));
}

TEST_F(FileFlags, MayNameTheSameWhereNothingIsReplaced) {
  const FileFlag resume{"--resume", folder.path("run"), FileUse::kRead};
  const FileFlag offload{"--offload-to", folder.path("run"), FileUse::kScratch};
  EXPECT_NO_THROW(
      expect_different_files(std::vector{checkpoint("run"), resume, offload, metrics("run/m")}))
      << "folders hold several files";
  EXPECT_NO_THROW(expect_different_files(std::vector<FileFlag>{
      {"--metrics", "/dev/null", FileUse::kWritten}, {"--trace", "/dev/null", FileUse::kWritten}}));
  EXPECT_NO_THROW(expect_different_files({}));
}

TEST_F(FileFlags, AreRefusedWhenTheyReplaceAFileOfAFolder) {
  const std::string weights = folder.write("run/step-1/model.safetensors", "mine");
  folder.write("elsewhere/old", "an earlier run's");
  fs::create_directory_symlink("run", folder.path("link"));
  fs::create_symlink("run/step-1/model.safetensors", folder.path("alias"));
  const FileFlag resume{"--resume", folder.path("link"), FileUse::kRead};
  const FileFlag init{"--init", folder.path("run/step-1"), FileUse::kRead};
  for (const FileFlag& read : {resume, init, checkpoint("run"), checkpoint("./elsewhere/../run")}) {
    for (const char* spelling : {"run/step-1/model.safetensors", "link/step-1/model.safetensors",
                                 "alias", "elsewhere/../run/./step-1/model.safetensors"}) {
      test::expect_parts(
          refusal({read, metrics(spelling)}),
          {"--metrics '", "would replace a file of the folder of " + read.flag + ", '",
           "Give the path of a new file"});
      EXPECT_NE(refusal({trace(spelling), read}), "") << "in either order";
    }
    EXPECT_NO_THROW(expect_different_files(std::vector{read, metrics("run/step-1/new.jsonl")}));
    EXPECT_NO_THROW(expect_different_files(std::vector{read, metrics("elsewhere/old")}));
    EXPECT_NO_THROW(
        expect_different_files(std::vector{read, FileFlag{"--data", weights, FileUse::kRead}}));
  }
  const FileFlag answer{"--table-list", weights, FileUse::kAnswer};
  EXPECT_NE(refusal({init, answer}), "");
}

// A Hugging Face cache keeps a model's folder of links, and the files beside it under other names.
TEST_F(FileFlags, AreRefusedWhenALinkInAFolderLeadsToThem) {
  folder.write("blobs/5f3a", "mine");
  fs::create_directories(folder.path("snapshots/main"));
  fs::create_symlink("../../blobs/5f3a", folder.path("snapshots/main/model.safetensors"));
  const FileFlag init{"--init", folder.path("snapshots/main"), FileUse::kRead};
  for (const char* name : {"blobs/5f3a", "snapshots/main/model.safetensors"}) {
    EXPECT_THAT(refusal({init, metrics(name)}),
                ::testing::HasSubstr("would replace a file of the folder of --init"));
  }
  EXPECT_NO_THROW(expect_different_files(std::vector{init, metrics("blobs/new")}));
}

TEST_F(FileFlags, MayReplaceWhatIsInAFolderForFilesWithoutAName) {
  folder.write("old", "an earlier run's");
  EXPECT_NO_THROW(expect_different_files(
      std::vector{FileFlag{"--offload-to", folder.path(), FileUse::kScratch}, metrics("old")}));
}

TEST_F(FileFlags, ThatAreWrittenHaveNoMeaningWithAnAnswer) {
  const auto with_answer = [](const FileFlag& file) {
    expect_nothing_to_write(std::vector{file}, "--answer");
  };
  EXPECT_NO_THROW(with_answer(data("text")));
  EXPECT_NO_THROW(with_answer({"--table-list", folder.path("list"), FileUse::kAnswer}));
  for (const FileFlag& file : {metrics("m"), checkpoint("run")}) {
    test::expect_parts(test::message_of<ConfigError>([&] { with_answer(file); }),
                       {file.flag + " has no meaning with --answer", "stdout"});
  }
}

}  // namespace
}  // namespace ultra::train
