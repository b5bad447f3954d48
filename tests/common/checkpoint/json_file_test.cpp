#include "common/checkpoint/json_file.hpp"

#include <filesystem>

#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

constexpr const char* kFile = "some/file.json";

std::string refused(const std::string& text) {
  return message_of<FileError>([&] { static_cast<void>(parse_json(text, kFile)); });
}

/// "[[[...]]]": the text of a bug or of an enemy.
std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

// Reading -----------------------------------------------------------------------------------------

class ReadText : public ::testing::Test {
 protected:
  [[nodiscard]] std::string failure(const std::string& path) const {
    return message_of<FileError>([&] { static_cast<void>(read_text(files, path)); });
  }

  test::TemporaryFolder folder;
  FileLayer& files = posix_files();
};

TEST_F(ReadText, IsTheWholeFile) {
  const std::string content("zero \0 and \xff", 12);
  EXPECT_EQ(read_text(files, folder.write("file", content)), content);
  EXPECT_EQ(read_text(files, folder.write("empty", "")), "");
  EXPECT_THAT(failure(folder.path("missing")),
              AllOf(HasSubstr(folder.path("missing")), HasSubstr("No such file")));
}

TEST_F(ReadText, AFileThatIsFarTooLongIsRefusedByItsSize) {
  const std::string path = folder.write("sparse", "");
  std::filesystem::resize_file(path, 20'000'000'000);
  EXPECT_THAT(failure(path), AllOf(HasSubstr("'" + path + "' is damaged"), HasSubstr("20.0 GB"),
                                   HasSubstr("at most 1.00 GB")));
}

// Parsing -----------------------------------------------------------------------------------------

TEST(ParseJson, NamesTheFileAndThePlace) {
  EXPECT_THAT(refused(R"({"a": 1, x})"),
              AllOf(HasSubstr("'some/file.json' is damaged"), HasSubstr("no JSON at byte 9 of 11"),
                    HasSubstr("Resume an older checkpoint")));
  EXPECT_THAT(refused(""), HasSubstr("at byte 0 of 0"));
  EXPECT_THAT(refused("[1e999]"), HasSubstr("too large"));
}

TEST(ParseJson, LimitsTheDepth) {
  const std::size_t limit = kMaxJsonDepth;
  EXPECT_NO_THROW(static_cast<void>(parse_json(nested(limit), kFile)));
  for (const std::size_t depth : {limit + 1, limit + 2, std::size_t{100'000}}) {
    EXPECT_THAT(refused(nested(depth)), HasSubstr("nested more than")) << depth;
    EXPECT_THAT(refused(std::string(depth, '[')), HasSubstr("'some/file.json' is damaged"))
        << depth;
  }
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  EXPECT_THAT(refused(objects), HasSubstr("nested more than"));
}

TEST(ParseJson, MessagesAreShortAndPlain) {
  const std::string much(1'000'000, '\x1b');
  for (const std::string& text :
       {much, "\"" + much, "[\"" + much + "\"]", "{\"" + much, std::string(1'000'000, '9') + "e999",
        "[" + std::string(1'000'000, 'x'), std::string("[1\n2\n3]")}) {
    const std::string message = refused(text);
    EXPECT_LT(message.size(), 500U);
    EXPECT_TRUE(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; }))
        << message;
  }
}

// Members -----------------------------------------------------------------------------------------

TEST(ReadJson, WhatIsMissingOrOfAnotherKindIsDamage) {
  const auto read = [](const std::string& text) {
    return read_json(text, kFile,
                     [](const Json& object) { return whole_number_in<int>(object, "n"); });
  };
  EXPECT_EQ(read(R"({"n": 5})"), 5);
  const auto failure = [&](const std::string& text) {
    return message_of<FileError>([&] { static_cast<void>(read(text)); });
  };
  EXPECT_THAT(failure("{}"), HasSubstr("'some/file.json' is damaged: it has no 'n'."));
  EXPECT_THAT(failure("5"),
              HasSubstr("'some/file.json' is damaged: a number stands where an object belongs."));
  EXPECT_THAT(failure("null"), HasSubstr("null stands where an object belongs."));
  for (const char* value : {"-1", "0.5", "1e3", "true", "null", "[]", "2147483648", "\"5\""}) {
    EXPECT_THAT(failure(fmt::format(R"({{"n": {}}})", value)), HasSubstr("no whole number"))
        << value;
  }
}

TEST(ReadJson, SaysWhatStandsWhereAnotherKindBelongs) {
  const auto failure = [](const char* text, const std::function<void(const Json&)>& read) {
    return message_of<FileError>([&] {
      static_cast<void>(read_json(text, kFile, [&](const Json& object) {
        read(object);
        return 0;
      }));
    });
  };
  const auto text_of = [](const Json& x) { static_cast<void>(x.get<std::string>()); };
  EXPECT_THAT(failure("5", text_of), HasSubstr("a number stands where a text belongs."));
  EXPECT_THAT(failure("[]", text_of), HasSubstr("a list stands where a text belongs."));
  const auto list_of = [](const Json& x) { static_cast<void>(x.elements()); };
  EXPECT_THAT(failure("{}", list_of), HasSubstr("an object stands where a list belongs."));
  const auto third_of = [](const Json& x) { static_cast<void>(x.at(2)); };
  EXPECT_THAT(failure("[1]", third_of), HasSubstr("a list in it is too short."));
  const auto byte_of = [](const Json& x) { static_cast<void>(x.get<std::uint8_t>()); };
  EXPECT_THAT(failure("256", byte_of), HasSubstr("stands where a whole number up to 255 belongs"));
}

// Whoever has given --init has no older checkpoint.
TEST(ParseJson, TheAdviceIsForTheFilesOwner) {
  const auto refusal = [](FileOf owner) {
    return message_of<FileError>([&] { static_cast<void>(parse_json("{", kFile, owner)); });
  };
  EXPECT_THAT(refusal(FileOf::kCheckpoint),
              AllOf(StartsWith("checkpoint file 'some/file.json' is damaged: "),
                    HasSubstr("Resume an older checkpoint.")));
  EXPECT_THAT(refusal(FileOf::kModel), AllOf(StartsWith("'some/file.json' is damaged: "),
                                             HasSubstr("Take another copy of its folder."),
                                             ::testing::Not(HasSubstr("checkpoint"))));
}

}  // namespace
}  // namespace ultra::checkpoint
