// Objects of JSON files.
#include "common/base/json_fields.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "common/base/errors.hpp"
#include "tests/support/expect_message.hpp"
#include "tests/support/files/temporary_folder.hpp"

namespace ultra {
namespace {

JsonFields fields() {
  return {{{"number", 1.5}, {"count", 3}, {"text", "a"}, {"flag", true}, {"list", {1}}}, "it"};
}

TEST(JsonFields, WhatIsThere) {
  EXPECT_EQ(fields().number("number"), 1.5);
  EXPECT_EQ(fields().number_or("none", 2), 2);
  EXPECT_EQ(fields().count("count"), 3U);
  EXPECT_EQ(fields().count_or("none", 4), 4U);
  EXPECT_EQ(fields().text("text"), "a");
  EXPECT_EQ(fields().text_or("none", "b"), "b");
  EXPECT_TRUE(fields().flag_or("flag", false));
  EXPECT_TRUE(fields().objects("none").empty());
}

TEST(JsonFields, WhatIsNot) {
  const auto refuses = [](const auto& read, const std::vector<std::string>& words) {
    test::expect_message<FileError>([&] { read(fields()); }, words);
  };
  refuses([](const JsonFields& f) { (void)f.number("none"); }, {"it lacks \"none\"", "count"});
  refuses([](const JsonFields& f) { (void)f.number("text"); }, {"\"text\" is", "a number"});
  refuses([](const JsonFields& f) { (void)f.count("number"); }, {"a whole number above 0"});
  refuses([](const JsonFields& f) { (void)f.text("flag"); }, {"a text in quotes"});
  refuses([](const JsonFields& f) { (void)f.flag_or("text", true); }, {"true or false"});
  refuses([](const JsonFields& f) { (void)f.object("list"); }, {"must be an object"});
  refuses([](const JsonFields& f) { (void)f.objects("list"); }, {"number 1", "an object"});
  refuses([](const JsonFields& f) { f.expect_only({"number"}); }, {"no key 'count'", "number"});
}

TEST(JsonFields, NullIsNothing) {
  const JsonFields fields({{"n_inner", nullptr}}, "it");
  EXPECT_FALSE(fields.has("n_inner"));
  EXPECT_EQ(fields.count_or("n_inner", 4), 4U);
  test::expect_message<FileError>([&] { (void)fields.count("n_inner"); },
                                  {"\"n_inner\" is 'null'"});
}

TEST(JsonFields, FilesOfAnyKind) {
  const ultra::test::TemporaryFolder folder;
  const auto refuses = [&](const std::string& text, const std::vector<std::string>& words) {
    const std::string path = folder.write("file.json", text);
    test::expect_message<FileError>([&] { (void)JsonFields::of_file(path).object("gpu"); }, words);
  };
  refuses("", {"holds no JSON"});
  refuses("[1]", {"a list of 1", "must be an object"});
  refuses("{}", {"lacks \"gpu\"", "It has: nothing"});
  refuses(R"({"gpu": {"a": 1}, "b": )", {"holds no JSON"});
  const std::size_t deep = 1U << 20U;
  refuses(R"({"gpu": )" + std::string(deep, '[') + std::string(deep, ']') + "}",
          {"more than 100 deep"});
  refuses(std::string(deep << 5U, ' '), {"is larger than"});
  test::expect_message<FileError>([&] { (void)JsonFields::of_file(folder.path("none.json")); },
                                  {"cannot be read"});
  test::expect_message<FileError>([&] { (void)JsonFields::of_file(folder.path("")); },
                                  {"cannot be read: it is a folder. Give the path of a JSON file"});
}

}  // namespace
}  // namespace ultra
