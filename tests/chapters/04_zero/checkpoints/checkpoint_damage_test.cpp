// Damaged checkpoints and full disks: the executable 04_zero says which file it is, and loads
// nothing.
//
// Covers: chapters/04_zero/checkpoints/checkpoint_reader.hpp

#include "common/checkpoint/checksum.hpp"
#include "tests/chapters/04_zero/checkpoints/damaged_checkpoint.hpp"
#include "tests/support/files/own_disk.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

namespace fs = std::filesystem;

// Damage ------------------------------------------------------------------------------------------

TEST_F(DamagedCheckpoint, WithoutOneOfItsFiles) {
  ASSERT_EQ(files().size(), 3U + 4U + 4U);
  for (const std::string& file : files()) {
    SCOPED_TRACE(file);
    const bool is_record = file == "training.json";
    refused_with(file, std::nullopt, {file, is_record ? "a part of a checkpoint" : "No such file"});
  }
  expect_loads_when_whole();
}

TEST_F(DamagedCheckpoint, WithAFileThatIsCutOff) {
  for (const std::string& file : files()) {
    // What ends a list of parts is the end of a line: without it nothing is missing.
    const std::size_t most = text_of(file).size() - (file.starts_with("parts-") ? 2 : 1);
    for (const std::size_t size :
         {std::size_t{0}, random.between(1, most), random.between(1, most), most}) {
      SCOPED_TRACE(fmt::format("{} of {} bytes of {}", size, text_of(file).size(), file));
      refused_with(file, text_of(file).substr(0, size));
    }
  }
  expect_loads_when_whole();
}

TEST_F(DamagedCheckpoint, WithAFileThatIsLonger) {
  for (const std::string& file : files()) {
    if (file.ends_with(".json")) continue;
    refused_with(file, text_of(file) + std::string(random.between(1, 9), '\0'));
  }
}

TEST_F(DamagedCheckpoint, WithAFlippedBit) {
  for (const std::string& file : files()) {
    for (int attempt = 0; attempt < 4; ++attempt) {
      std::string text = text_of(file);
      const std::size_t at = random.between(0, text.size() - 1);
      const std::size_t bit = random.between(0, 7);
      text[at] ^= static_cast<char>(1U << bit);
      SCOPED_TRACE(fmt::format("bit {} of byte {} of {}", bit, at, file));
      refused_with(file, text);
    }
  }
  expect_loads_when_whole();
}

/// Whichever rank compares the checksum, no other says first what the wrong header means.
TEST_F(DamagedCheckpoint, WithAHeaderThatSaysSomethingElse) {
  for (const std::string& file : files()) {
    if (!file.starts_with("optimizer-")) continue;
    std::string text = text_of(file);
    const std::size_t name = text.find("exp_avg/");
    ASSERT_NE(name, std::string::npos) << file;
    text[name + std::string_view("exp_avg/").size()] = '#';
    refused_with(file, text);
  }
  expect_loads_when_whole();
}

TEST_F(DamagedCheckpoint, WithTheWeightsOfAnotherStep) {
  fs::copy_file(saved_step(2) + "/model.safetensors", saved_step(3) + "/model.safetensors",
                fs::copy_options::overwrite_existing);
  expect_refused({saved_step(3) + "/model.safetensors", "checksum"});
}

TEST_F(DamagedCheckpoint, WithAFolderInsteadOfAFile) {
  for (const std::string& file : files()) {
    restore();
    fs::remove(saved_step(3) + "/" + file);
    fs::create_directory(saved_step(3) + "/" + file);
    expect_refused({saved_step(3) + "/" + file, "Is a directory"});
  }
}

/// A record that promises as many writers as memory has room for must not be believed.
TEST_F(DamagedCheckpoint, WithMoreWritersThanFiles) {
  json record = json::parse(text_of("training.json"));
  for (const int writers : {1, 3, 5, 2147483647}) {
    record["writers"] = writers;
    refused_with("training.json", record.dump(), {"parts-", "No such file"});
  }
}

class DamagedParts : public DamagedCheckpoint {
 protected:
  const std::string kFile = "parts-00001-of-00004.json";

  /// Parts of the second writer, with others added.
  [[nodiscard]] std::string with_part(const json& part) const {
    json parts = json::parse(text_of(kFile));
    parts.push_back(part);
    return parts.dump();
  }
};

/// Without a list of what a rank has written nobody would look at it.
TEST_F(DamagedParts, ThatListNothing) { refused_with(kFile, "[]", {kFile, "it lists nothing"}); }

TEST_F(DamagedParts, BehindTheEndOfTheirFile) {
  for (const auto& [offset, bytes] :
       std::vector<std::pair<json, json>>{{100000, 1},
                                          {0, 100000},
                                          {0, 18446744073709551615U},
                                          {18446744073709551615U, 1},
                                          {-1, 1},
                                          {0, -1},
                                          {9223372036854775807, 9223372036854775807}}) {
    SCOPED_TRACE(offset.dump() + " " + bytes.dump());
    refused_with(
        kFile,
        with_part({{"file", "config.json"}, {"offset", offset}, {"bytes", bytes}, {"crc32", 0}}),
        {saved_step(3)});
  }
}

/// The list is what was damaged; the message cannot know, and must not blame the weights alone.
TEST_F(DamagedParts, WithOtherNumbers) {
  for (const auto& [key, value] : std::vector<std::pair<const char*, int>>{
           {"crc32", 0}, {"offset", 1}, {"bytes", 1}, {"bytes", 100'000'000}}) {
    SCOPED_TRACE(key);
    restore();
    json parts = json::parse(text_of(kFile));
    json* of_weights = nullptr;
    for (json& part : parts) {
      if (part.at("file") == "model.safetensors") of_weights = &part;
    }
    ASSERT_NE(of_weights, nullptr);
    (*of_weights)[key] = value;
    // Other ranks see that what all lists say does not add up.
    const bool one_list = std::string_view(key) == "crc32";
    refused_with(kFile, parts.dump(),
                 {saved_step(3) + "/model.safetensors", "or " + (one_list ? kFile : "parts-")});
  }
}

/// A list that says too little leaves bytes that nobody has checked.
TEST_F(DamagedParts, WithoutSomeOfTheWeights) {
  json parts = json::parse(text_of(kFile));
  const auto is_of_weights = [](const json& part) {
    return part.at("file") == "model.safetensors";
  };
  parts.erase(std::find_if(parts.begin(), parts.end(), is_of_weights));
  refused_with(kFile, parts.dump(),
               {saved_step(3) + "/model.safetensors", "or parts-*-of-00004.json is"});
}

/// The checksums are right: a list must not lead out of its folder all the same.
TEST_F(DamagedParts, InFilesElsewhere) {
  const std::string text = "somebody else's";
  const std::uint32_t crc32 = checkpoint::crc32_of(std::as_bytes(std::span(text)));
  disk.write("all/other", text);
  for (const std::string& name : {std::string("../other"), std::string("/"), std::string("../"),
                                  std::string("../../all/other"), disk.path("all/other"),
                                  "./../" + step_name(3) + "/../other"}) {
    SCOPED_TRACE(name);
    refused_with(
        kFile, with_part({{"file", name}, {"offset", 0}, {"bytes", text.size()}, {"crc32", crc32}}),
        {kFile, "is none that this rank can have written"});
  }
  for (const char* name : {"", ".", "..", "missing", "parts-00000-of-00004.json",
                           "optimizer-00000-of-00004.safetensors"}) {
    SCOPED_TRACE(name);
    refused_with(kFile, with_part({{"file", name}, {"offset", 0}, {"bytes", 0}, {"crc32", 0}}));
  }
}

/// Names come from a file: they must not write on the terminal, nor fill it.
TEST_F(DamagedParts, NamesInMessagesAreEscapedAndShort) {
  for (const std::string& name : {std::string("\x1b[31mred"), std::string(1'000'000, 'x')}) {
    restore();
    disk.write("all/" + step_name(3) + "/" + kFile,
               with_part({{"file", name}, {"offset", 0}, {"bytes", 0}, {"crc32", 0}}));
    const ProcessResult result = run(kSixSteps, {"--dp", "2", "--resume", saved()});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr(kFile), Not(HasSubstr("\x1b"))));
    EXPECT_LT(result.err.size(), 1000U);
  }
}

/// A hole of a file takes no place on the disk: its size alone says that it is no list.
TEST_F(DamagedCheckpoint, WithAJsonFileOfManyGigabytes) {
  for (const std::string file : {"training.json", "parts-00002-of-00004.json"}) {
    restore();
    fs::resize_file(saved_step(3) + "/" + file, 20'000'000'000);
    failed(kSixSteps, 2, {saved_step(3) + "/" + file, "is damaged", "20.0 GB"},
           {"--dp", "2", "--resume", saved()});
  }
}

// Full disks --------------------------------------------------------------------------------------

class FullDisk : public CheckpointProgramTest {
 protected:
  static constexpr std::size_t kPage =
      4096;  // of the disk: files and the disk itself are whole pages

  /// What the files of a checkpoint take on a disk.
  [[nodiscard]] std::size_t bytes_of_a_checkpoint() const {
    std::size_t bytes = 0;
    for (const auto& [name, text] : tree_of(saved_step(1))) {
      bytes += (text.size() + kPage - 1) / kPage * kPage;
    }
    return bytes;
  }

  /// Trains on a disk of that size; what became of it, and what goes on from there.
  [[nodiscard]] std::optional<json> on_disk_of(std::size_t bytes, const Words& more = {}) const {
    fs::create_directories(saved("small"));
    const auto answer =
        with_own_disk(saved("small"), bytes, DiskState::kWritable, [&]() -> std::string {
          const Words saving =
              joined(kFourShards, {"--checkpoint", saved("small"), "--save-every", "1"});
          const ProcessResult ran = run(kSixSteps, joined(saving, more));
          json told = {{"exit_code", ran.exit_code}, {"err", ran.err}, {"names", names("small")}};
          const std::string metrics = folder.path("metrics.jsonl");
          const ProcessResult next = run(with(kSixSteps, "--metrics", metrics),
                                         joined(kFourShards, {"--resume", saved("small")}));
          told["next_err"] = next.err;
          if (next.exit_code == 0) told["losses"] = events_of(metrics).back().at("losses");
          return told.dump();
        });
    if (!answer) return std::nullopt;
    return json::parse(*answer);
  }
};

/// Wherever in the first, second or third checkpoint the space ends.
TEST_F(FullDisk, EndsTheTrainingAndLeavesWhatIsComplete) {
  const json expected = save_all(kSixSteps, kFourShards);
  const std::size_t each = bytes_of_a_checkpoint();
  for (const std::size_t fit : {0U, 1U, 2U}) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const std::size_t bytes = fit * each + random.between(8 * kPage, each - 4 * kPage);
      SCOPED_TRACE(fmt::format("{} checkpoints of {} on {} bytes", fit, each, bytes));
      const std::optional<json> told = on_disk_of(bytes);
      if (!told) GTEST_SKIP() << "this machine does not allow mounts";
      EXPECT_EQ(told->at("exit_code"), 2);
      const std::string err = told->at("err");
      EXPECT_THAT(err, ::testing::ContainsRegex("^error: (rank [0-9]: )?checkpoint file '"));
      EXPECT_THAT(err, HasSubstr("No space left on device"));
      EXPECT_THAT(err, HasSubstr("Free some space"));
      EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
      Words complete;
      for (std::size_t step = 1; step <= fit; ++step) complete.push_back(step_name(step));
      EXPECT_EQ(told->at("names"), json(complete)) << "no unfinished folder";
      EXPECT_EQ(told->value("losses", json()), expected) << told->at("next_err");
    }
  }
}

/// With --keep the disk has to hold one more.
TEST_F(FullDisk, KeepMakesRoom) {
  static_cast<void>(save_all(with(kSixSteps, "--steps", "1"), kFourShards));
  const auto told = on_disk_of(2 * bytes_of_a_checkpoint() + 65536, {"--keep", "1"});
  if (!told) GTEST_SKIP() << "this machine does not allow mounts";
  EXPECT_EQ(told->at("exit_code"), 0) << told->at("err");
  EXPECT_EQ(told->at("names"), json(Words{step_name(6)}));
}

}  // namespace
}  // namespace ultra::zero
