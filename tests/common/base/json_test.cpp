// Covers: common/base/json_events.hpp, common/base/json_fields.hpp

#include "common/base/json.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "common/base/json_fields.hpp"
#include "tests/support/expect_message.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

using nlohmann::ordered_json;

/// All kinds of values, in an order that is not the alphabet's.
const std::string kText =
    R"({"z": [1, -2, 0.5, 1e300, 18446744073709551615, -9223372036854775808], "a": {"c": null,)"
    R"( "b": "t\"ext\u00e9\n"}, "yes": true, "no": false, "empty": [[], {}, ""], "0.1": 0.1})";

std::string refused(const std::string& text) {
  return message_of<JsonError>([&] { static_cast<void>(Json::parse(text)); });
}

// Text --------------------------------------------------------------------------------------------

TEST(Json, IsWrittenAsTheLibraryWritesIt) {
  for (const int indent : {-1, 0, 2}) {
    EXPECT_EQ(Json::parse(kText).dump(indent), ordered_json::parse(kText).dump(indent));
  }
  EXPECT_EQ(Json::parse(kText).dump(-1, JsonLetters::kAscii),
            ordered_json::parse(kText).dump(-1, ' ', true));
}

TEST(Json, OfMembersWithOneKeyTheLastCounts) {
  const char* text = R"({"b": 1, "a": 2, "b": 3, "c": 4, "a": 5})";
  EXPECT_EQ(Json::parse(text).dump(), R"({"b":3,"a":5,"c":4})");
}

TEST(Json, BytesThatAreNoLettersAreRefusedOrReplaced) {
  const Json json = "a\xff\xc3\xa9";
  EXPECT_THROW(static_cast<void>(json.dump()), JsonError);
  EXPECT_EQ(json.dump(-1, JsonLetters::kReplaced), "\"a\xef\xbf\xbd\xc3\xa9\"");
  EXPECT_EQ(json.dump(-1, JsonLetters::kAscii), R"("a\ufffd\u00e9")");
}

TEST(Json, ATextThatIsNoneIsRefusedWithItsPlace) {
  EXPECT_EQ(refused(R"({"a": 1, x})"), R"(it is no JSON at byte 9 of 11, at "{\"a\": 1, x}")");
  EXPECT_EQ(refused(""), R"(it is no JSON at byte 0 of 0, at "")");
  EXPECT_THAT(refused("[1] 2"), HasSubstr("at byte 4 of 5"));
  EXPECT_THAT(refused("[1e999]"), HasSubstr("too large"));
}

TEST(Json, ListsInListsAreReadToADepth) {
  EXPECT_EQ(Json::parse("[[1]]", 2).dump(), "[[1]]");
  EXPECT_THROW(static_cast<void>(Json::parse("[[{}]]", 2)), JsonTooDeep);
  EXPECT_THROW(static_cast<void>(Json::parse(std::string(1'000'000, '['))), JsonTooDeep);
}

// Values in C++ -----------------------------------------------------------------------------------

TEST(Json, MembersKeepTheirPlaces) {
  Json json;
  json["b"]["x"] = 1;
  json["a"] = {1, 2};
  json["b"]["x"] = "new";
  json["a"].push_back(3);
  json["a"][0] = nullptr;
  EXPECT_EQ(json.dump(), R"({"b":{"x":"new"},"a":[null,2,3]})");
  json.update({{"c", 1}, {"b", 2}});
  EXPECT_EQ(json.dump(), R"({"b":2,"a":[null,2,3],"c":1})");
  json.erase("a");
  json.erase("missing");
  EXPECT_EQ(json.dump(), R"({"b":2,"c":1})");
}

TEST(Json, IsReadAsItsKind) {
  const Json json = Json::parse(R"({"n": 5, "x": -1.5, "yes": true, "s": "t", "l": [1, 2]})");
  EXPECT_EQ(json["n"].get<int>(), 5);
  EXPECT_EQ(json["n"].get<double>(), 5.0);
  EXPECT_EQ(json["x"].get<double>(), -1.5);
  EXPECT_TRUE(json["yes"].get<bool>());
  EXPECT_EQ(json["s"].get<std::string>(), "t");
  EXPECT_EQ(json["l"].get<std::vector<std::size_t>>(), (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ((Json::parse(R"({"a": 1})").get<std::map<std::string, int>>()),
            (std::map<std::string, int>{{"a", 1}}));
  EXPECT_EQ(json.find("missing"), nullptr);
  EXPECT_EQ(json["n"].find("x"), nullptr);
  EXPECT_EQ(json.size(), 5U);
}

TEST(Json, ElementsOutliveAValueThatNobodyHolds) {
  std::size_t sum = 0;
  for (const Json& each : Json::parse("[1, 2]").elements()) sum += each.get<std::size_t>();
  for (const auto& [key, value] : Json::parse(R"({"a": 4})").members()) {
    sum += value.get<std::size_t>();
  }
  EXPECT_EQ(sum, 7U);
}

// Objects of JSON files.

JsonFields fields() {
  return {{{"number", 1.5}, {"count", 3}, {"text", "a"}, {"flag", true}, {"list", {1}}}, "it"};
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
