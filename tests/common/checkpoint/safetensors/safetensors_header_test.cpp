// Covers: common/checkpoint/files/file_damage.hpp, common/checkpoint/safetensors/header_json.hpp.
#include "common/checkpoint/safetensors/safetensors_header.hpp"

#include "common/checkpoint/files/file_damage.hpp"
#include "tests/common/checkpoint/file_text.hpp"
#include "tests/support/sanitizer.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

constexpr const char* kPath = "/disk/model.safetensors";
constexpr std::size_t kLargest = std::numeric_limits<std::size_t>::max();

/// A file of which `more` bytes are not looked at.
SafetensorsHeader parsed(std::string_view file, std::size_t more = 0) {
  return parse_header(std::as_bytes(std::span(file)), file.size() + more, kPath);
}

std::string refusal(std::string_view file, std::size_t more = 0) {
  return message_of<FileError>([&] { return parsed(file, more); });
}

/// What a file of this JSON, and so many zeros as its data, is told.
std::string refused_header(std::string_view json, std::size_t data_bytes = 0) {
  return refusal(file_text(json, data_bytes));
}

/// Names the file, says what is wrong and what to do, in one line.
auto damage(const std::string& what) {
  return AllOf(StartsWith(fmt::format("safetensors file '{}' is damaged: ", kPath)),
               HasSubstr(what), HasSubstr("Take another copy"), Not(HasSubstr("\n")));
}

/// A header of one tensor "a".
std::string one_tensor(std::string_view type, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"a":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", type, shape,
                     offsets);
}

std::string text_of(const SafetensorsHeader& header) {
  const std::vector<std::byte> bytes = header.to_bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// ---- What is read -------------------------------------------------------------------------------

TEST(ParseHeader, ReadsNamesTypesShapesAndOffsets) {
  const SafetensorsHeader header =
      parsed(file_text(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
                       R"("__metadata__":{"format":"pt","empty":""},)"
                       R"("s":{"data_offsets":[0,8],"shape":[],"dtype":"F64"}})",
                       32));
  ASSERT_THAT(header.tensors(), SizeIs(2));
  EXPECT_EQ(header.tensors()[0], (StoredTensor{"s", StoredType::kF64, {}, {0, 8}}));
  EXPECT_EQ(header.tensors()[1], (StoredTensor{"w", StoredType::kF32, {2, 3}, {8, 32}}));
  EXPECT_THAT(header.metadata(), ElementsAre(Pair("empty", ""), Pair("format", "pt")));
  EXPECT_EQ(header.tensors()[1].numel(), 6U);
  EXPECT_EQ(header.find("w"), &header.tensors()[1]);
  EXPECT_EQ(header.find("x"), nullptr);
  EXPECT_EQ(header.offset_of(header.tensors()[1], 2), header.data_begin() + 8 + 2 * 4);
}

TEST(ParseHeader, SpacesMayFollowAndNamesMayBeAnything) {
  const std::string json =
      R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
      R"("\u00e9\n\u0000":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}   )";
  const SafetensorsHeader header = parsed(file_text(json, 2));
  EXPECT_NE(header.find(""), nullptr);
  EXPECT_NE(header.find(std::string("\xC3\xA9\n\0", 4)), nullptr);
}

TEST(ParseHeader, ReadsEveryTypeWithItsSize) {
  const std::vector<std::pair<std::string, std::size_t>> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
      {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
  EXPECT_THAT(sizes, SizeIs(kStoredTypes.size()));
  for (const auto& [name, size] : sizes) {
    const std::string type = fmt::format("\"{}\"", name);
    const std::string offsets = fmt::format("[0,{}]", 3 * size);
    const SafetensorsHeader header = parsed(file_text(one_tensor(type, "[3]", offsets), 3 * size));
    EXPECT_EQ(to_string(header.tensors()[0].type), name);
    EXPECT_EQ(header.tensors()[0].numel(), 3U) << name;
  }
}

TEST(ParseHeader, LooksAtNoMoreThanTheHeader) {
  const std::string file = file_text(one_tensor("\"U8\"", "[1000000]", "[0,1000000]"));
  EXPECT_EQ(parsed(file, 1'000'000).file_size(), file.size() + 1'000'000);
}

// ---- What is refused ----------------------------------------------------------------------------

TEST(DamagedHeader, TheLengthMustFitTheFile) {
  EXPECT_THAT(refusal(""), damage("it has 0 bytes, expected at least the 8"));
  EXPECT_THAT(refusal("1234567"), damage("it has 7 bytes"));
  EXPECT_THAT(refusal(length_bytes(0)), damage("its header is empty"));
  EXPECT_THAT(refusal(length_bytes(3) + "{}"), damage("is 3, but only 2 bytes follow"));
  EXPECT_THAT(refusal(length_bytes(100'000'000) + "{}"), damage("but only 2 bytes follow"));
  EXPECT_THAT(refusal(length_bytes(100'000'001) + "{}"),
              damage("is 100000001, expected at most 100000000; is it a safetensors file?"));
  EXPECT_THAT(refusal(length_bytes(kLargest)), damage("is 18446744073709551615, expected at most"));
  EXPECT_THAT(refusal(length_bytes(100'000'001), 200'000'000 - 8), damage("expected at most"));
}

TEST(DamagedHeader, MustBeJson) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "not JSON at byte 1 of 1"},
      {"{\"a\"}", "not JSON at byte 4 of 5"},
      {"{}x", "not JSON at byte 2 of 3"},
      {"{}{}", "not JSON at byte 2 of 4"},
      {"{} // comment", "not JSON at byte 3"},
      {"{'a':1}", "not JSON at byte 1"},
      {"{\"a\":{},}", "has no dtype"},
      {"{\"__metadata__\":{\"a\":\"b\"},}", "not JSON at byte 26"},
      {"{\"\xC3(\":1}", "not JSON at byte 3"},
      {"{\"\xFF\":1}", "not JSON at byte 2"},
      {"{\"a\nb\":1}", "not JSON at byte 3"},
      {"{\"\\ud800\":1}", "not JSON at byte"},
      {std::string("{}\0", 3), "not JSON at byte 2 of 3: a zero byte"},
      {std::string("{}\0garbage", 10), "a zero byte"},
      {"{\"__metadata__\":{\"a\":\"" + std::string(5000, 'x'), "not JSON at byte 5022"}};
  for (const auto& [json, what] : cases) {
    EXPECT_THAT(refused_header(json), damage(what)) << shown_text(json);
  }
}

TEST(DamagedHeader, MustBeAnObject) {
  for (const char* json : {"[1,2]", "\"a\"", "1", "null", "true", " {}", "\xEF\xBB\xBF{}", "x"}) {
    EXPECT_THAT(refused_header(json), damage("expected a JSON object: '{'")) << json;
  }
}

TEST(DamagedHeader, DeepNestingEndsAtItsFirstLevel) {
  constexpr std::size_t kDepth = 1'000'000;
  const std::string lists(kDepth, '[');
  std::string objects;
  for (std::size_t i = 0; i < kDepth; ++i) objects += "{\"a\":";
  EXPECT_THAT(refused_header(lists), damage("begins with \"[\""));
  EXPECT_THAT(refused_header("{\"a\":" + lists), damage("tensor \"a\" is a list, expected"));
  EXPECT_THAT(refused_header(objects), damage("tensor \"a\" has an entry \"a\""));
  EXPECT_THAT(refused_header("{\"a\":{\"shape\":" + lists),
              damage("an extent in the shape of tensor \"a\" is a list"));
  EXPECT_THAT(refused_header("{\"__metadata__\":{\"a\":" + objects),
              damage("a value of __metadata__ is an object, expected a text"));
}

TEST(DamagedHeader, NamesComeOnce) {
  const std::string tensor = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(refused_header("{\"a\":" + tensor + ",\"b\":" + tensor + ",\"a\":" + tensor + "}"),
              damage("two tensors have the name \"a\""));
  EXPECT_THAT(refused_header("{\"a\":" + tensor + ",\"\\u0061\":" + tensor + "}"),
              damage("two tensors have the name \"a\""))
      << "the same name, written in another way";
  EXPECT_THAT(refused_header(R"({"__metadata__":{},"__metadata__":{}})"),
              damage("it has two __metadata__"));
  EXPECT_THAT(refused_header(R"({"__metadata__":{"k":"1","k":"1"}})"),
              damage("__metadata__ has two entries \"k\""));
  EXPECT_THAT(refused_header(R"({"a":{"dtype":"U8","dtype":"U8"}})"),
              damage("tensor \"a\" has two entries dtype"));
  EXPECT_THAT(refused_header(R"({"a":{"shape":[],"shape":[]}})"), damage("two entries shape"));
  EXPECT_THAT(refused_header(R"({"a":{"data_offsets":[0,0],"data_offsets":[0,0]}})"),
              damage("two entries data_offsets"));
}

TEST(DamagedHeader, TensorsHaveTheirThreeEntries) {
  const auto entry = [](const std::string& value) { return refused_header("{\"a\":" + value); };
  EXPECT_THAT(entry("{}}"), damage("tensor \"a\" has no dtype"));
  EXPECT_THAT(entry(R"({"dtype":"U8"}})"), damage("tensor \"a\" has no shape"));
  EXPECT_THAT(entry(R"({"dtype":"U8","shape":[]}})"), damage("tensor \"a\" has no data_offsets"));
  EXPECT_THAT(entry(R"({"dtype":"U8","strides":[]}})"),
              damage("an entry \"strides\", expected dtype, shape and data_offsets only"));
  for (const char* value : {"1", "-1", "1.5", "null", "true", "\"F32\"", "[]"}) {
    EXPECT_THAT(entry(std::string(value) + "}"),
                damage("expected an object of dtype, shape and data_offsets"));
  }
}

TEST(DamagedHeader, TheTypeIsAKnownText) {
  for (const char* type : {"\"F31\"", "\"f32\"", "\"\"", "\"F32 \"", "\"F4\""}) {
    EXPECT_THAT(refused_header(one_tensor(type, "[]", "[0,4]"), 4),
                AllOf(damage(fmt::format("tensor \"a\" has the unknown dtype {}", type)),
                      HasSubstr("expected one of BOOL, U8,"), HasSubstr("U64")));
  }
  for (const char* type : {"4", "null", "[\"F32\"]", "{}"}) {
    EXPECT_THAT(refused_header(one_tensor(type, "[]", "[0,4]"), 4),
                damage("expected a text such as \"F32\""));
  }
}

TEST(DamagedHeader, TheShapeIsAListOfIntegers) {
  const auto shape = [](auto value) {
    return refused_header(one_tensor("\"U8\"", value, "[0,4]"), 4);
  };
  for (const char* value : {"4", "null", "\"4\"", "{}", "-4"}) {
    EXPECT_THAT(shape(value), damage("expected a list of integers that are not negative"));
  }
  EXPECT_THAT(shape("[-4]"), damage("an extent in the shape of tensor \"a\" is -4, expected"));
  EXPECT_THAT(shape("[4.0]"), damage("is 4.0, expected an integer in [0, 2^64)"));
  EXPECT_THAT(shape("[4e0]"), damage("is 4e0"));
  EXPECT_THAT(shape("[18446744073709551616]"), damage("is 18446744073709551616, expected"));
  EXPECT_THAT(shape("[" + std::string(2000, '9') + "]"), damage("is 99999999999999999999"));
  for (const char* value : {"[null]", "[true]", "[\"4\"]", "[[4]]", "[{}]"}) {
    EXPECT_THAT(shape(value), damage("expected an integer in [0, 2^64)"));
  }
  EXPECT_THAT(shape("[04]"), damage("not JSON"));
}

TEST(DamagedHeader, ProductsDoNotOverflow) {
  const auto shape = [](auto value) {
    return refused_header(one_tensor("\"F32\"", value, "[0,4]"), 4);
  };
  for (const char* value :
       {"[4294967296,4294967296]", "[18446744073709551615]", "[4611686018427387905]",
        "[2,2,2305843009213693952,2]", "[9223372036854775808,2,0]", "[4611686018427387904,4,1]"}) {
    EXPECT_THAT(shape(value), damage("is larger than any file")) << value;
  }
}

TEST(DamagedHeader, OffsetsAreTwoIntegers) {
  const auto offsets = [](auto value) {
    return refused_header(one_tensor("\"U8\"", "[4]", value), 4);
  };
  for (const char* value : {"4", "null", "\"0,4\"", "{}"}) {
    EXPECT_THAT(offsets(value), damage("the data_offsets of tensor \"a\" is"));
  }
  EXPECT_THAT(offsets("[]"), damage("the data_offsets of tensor \"a\" holds 0 of two numbers"));
  EXPECT_THAT(offsets("[0]"), damage("holds 1 of two numbers"));
  EXPECT_THAT(offsets("[0,4,4]"), damage("is a third number, expected two integers"));
  EXPECT_THAT(offsets("[-4,0]"), damage("is -4, expected two integers in [0, 2^64)"));
  EXPECT_THAT(offsets("[0,4.5]"), damage("is 4.5"));
  EXPECT_THAT(offsets("[0,18446744073709551616]"), damage("is 18446744073709551616"));
}

TEST(DamagedHeader, OffsetsFitTheShape) {
  const auto offsets = [](auto value) {
    return refused_header(one_tensor("\"F32\"", "[2,3]", value), 24);
  };
  EXPECT_THAT(offsets("[24,0]"), damage("data_offsets [24, 0], which end before they begin"));
  EXPECT_THAT(offsets("[0,20]"),
              damage("tensor \"a\" of F32 [2, 3] has data_offsets [0, 20], which are 20 bytes, "
                     "expected 24"));
  EXPECT_THAT(offsets("[0,28]"), damage("which are 28 bytes, expected 24"));
  EXPECT_THAT(offsets("[0,18446744073709551615]"), damage("expected 24"));
  EXPECT_THAT(offsets("[18446744073709551600,8]"), damage("end before they begin"));
}

/// Two tensors of bytes, "a" and "b".
std::string two_tensors(std::size_t a_begin, std::size_t a_end, std::size_t b_begin,
                        std::size_t b_end) {
  return fmt::format(R"({{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                     R"("b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                     a_end - a_begin, a_begin, a_end, b_end - b_begin, b_begin, b_end);
}

TEST(DamagedHeader, TensorsCoverTheData) {
  EXPECT_NO_THROW(static_cast<void>(parsed(file_text(two_tensors(4, 8, 0, 4), 8))));
  EXPECT_THAT(refused_header(two_tensors(0, 4, 2, 6), 6),
              damage("tensor \"b\" with data_offsets [2, 6] overlaps tensor \"a\" with [0, 4]"));
  EXPECT_THAT(refused_header(two_tensors(0, 4, 0, 4), 4), damage("overlaps tensor"));
  EXPECT_THAT(refused_header(two_tensors(0, 4, 2, 2), 4), damage("overlaps tensor"));
  EXPECT_THAT(refused_header(two_tensors(0, 4, 5, 9), 9),
              damage("no tensor covers the bytes [4, 5] of its data, before tensor \"b\""));
  EXPECT_THAT(refused_header(two_tensors(1, 4, 4, 8), 8),
              damage("no tensor covers the bytes [0, 1]"));
  EXPECT_THAT(refused_header(two_tensors(0, 4, 4, 8), 7),
              damage("tensor \"b\" has data_offsets [4, 8], but the file has 7 bytes of data only: "
                     "it was cut off"));
  EXPECT_THAT(refused_header(two_tensors(0, 4, 4, 8), 9),
              damage("its tensors end at byte 8 of its data, but the file has 9 bytes of data"));
  EXPECT_THAT(refused_header("{}", 1), damage("end at byte 0 of its data"));
}

TEST(DamagedHeader, MetadataIsAMapOfTexts) {
  for (const char* value : {"1", "null", "\"a\"", "[]", "[\"a\"]"}) {
    EXPECT_THAT(refused_header(fmt::format(R"({{"__metadata__":{}}})", value)),
                damage("expected an object of texts"));
  }
  for (const char* value : {"1", "1.5", "-1", "null", "false", "[]", "{}"}) {
    EXPECT_THAT(refused_header(fmt::format(R"({{"__metadata__":{{"k":{}}}}})", value)),
                damage("a value of __metadata__ is"));
  }
}

TEST(DamagedHeader, MessagesStayShortAndOnOneLine) {
  const std::string name = "\\n\\u001b\\u00e9" + std::string(100'000, 'n');
  const std::string message = refused_header("{\"" + name + "\":1}");
  EXPECT_THAT(message, damage(R"(tensor "\n\u001b\u00e9nnn)"));
  EXPECT_LT(message.size(), 400U);
  std::string shape = "1";
  for (int i = 0; i < 1000; ++i) shape += ",1";
  EXPECT_THAT(refused_header(one_tensor("\"U8\"", "[" + shape + "]", "[0,2]"), 2),
              damage("[1, 1, 1, 1, 1, 1, 1, 1, ... 1001 dimensions]"));
}

// ---- What is written ----------------------------------------------------------------------------

// The example is the reference implementation's own test of its format.
TEST(MakeHeader, WritesTheBytesOfTheReferenceImplementation) {
  const std::vector<TensorSpec> specs = {{"attn.0", StoredType::kF32, {1, 2, 3}}};
  const SafetensorsHeader header = make_header(specs);
  const std::string json = R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})";
  EXPECT_EQ(text_of(header), std::string("\x40\0\0\0\0\0\0\0", 8) + json);
  EXPECT_EQ(header.file_size(), 8U + 64 + 24);
}

TEST(MakeHeader, PadsWithSpaces) {
  const std::vector<TensorSpec> specs = {{"attn0", StoredType::kF32, {1, 1, 2, 3}}};
  const std::string json =
      R"({"attn0":{"dtype":"F32","shape":[1,1,2,3],"data_offsets":[0,24]}}       )";
  EXPECT_EQ(text_of(make_header(specs)), std::string("\x48\0\0\0\0\0\0\0", 8) + json);
  EXPECT_EQ(text_of(make_header({})), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  EXPECT_EQ(text_of(make_header({}, {{"framework", "pt"}})),
            std::string("\x28\0\0\0\0\0\0\0", 8) + R"({"__metadata__":{"framework":"pt"}}     )");
}

TEST(MakeHeader, EscapesWhatJsonAsksFor) {
  const std::string odd("\"\\\n\0\x7F\xC3\xA9", 7);
  const std::vector<TensorSpec> specs = {{odd, StoredType::kU8, {1}}};
  const SafetensorsHeader header = make_header(specs, {{odd, odd}});
  const SafetensorsHeader again = parsed(text_of(header) + "x");
  EXPECT_EQ(again.tensors(), header.tensors());
  EXPECT_EQ(again.metadata(), header.metadata());
}

TEST(MakeHeader, RefusesWhatNoFileCanHold) {
  const auto told = [](const std::vector<TensorSpec>& specs, const Metadata& metadata = {}) {
    return message_of<ConfigError>([&] { return make_header(specs, metadata); });
  };
  EXPECT_THAT(
      told({{"a", StoredType::kU8, {}}, {"b", StoredType::kU8, {}}, {"a", StoredType::kF32, {}}}),
      HasSubstr("two tensors of the name \"a\""));
  EXPECT_THAT(told({{"__metadata__", StoredType::kU8, {}}}), HasSubstr("__metadata__"));
  EXPECT_THAT(told({{"\xFF", StoredType::kU8, {}}}), HasSubstr("UTF-8"));
  EXPECT_THAT(told({}, {{"k", "\xFF"}}), HasSubstr("UTF-8"));
  EXPECT_THAT(told({{"a", StoredType::kF64, {kLargest}}}), HasSubstr("larger than any file"));
  EXPECT_THAT(told({{"a", StoredType::kU8, {kLargest / 2}}}), HasSubstr("larger than any file"));
  EXPECT_THAT(
      told({{"a", StoredType::kU8, {kLargest / 4}}, {"b", StoredType::kU8, {kLargest / 4}}}),
      AllOf(HasSubstr("tensor \"b\""), HasSubstr("larger than any file")));
}

TEST(MakeHeader, RefusesMoreJsonThanTheFormatAllows) {
  if (test::sanitizer_owns_the_heap()) GTEST_SKIP() << "100 MB of text take a sanitizer long";
  constexpr std::size_t kTextBytes = 21;  // of the largest extent, with its comma
  std::vector<std::size_t> shape(kMaxJsonBytes / kTextBytes + 1, kLargest);
  shape[0] = 0;  // no elements, so that nothing but the text is too large
  const std::vector<TensorSpec> specs = {{"a", StoredType::kU8, shape}};
  EXPECT_THAT(message_of<ConfigError>([&] { return make_header(specs); }),
              AllOf(HasSubstr("1 tensors"), HasSubstr("100 MB")));
}

// A parsed header keeps its place: what it writes has the same length and meaning.
TEST(ParsedHeader, WritesItselfInItsPlace) {
  const std::string json =
      R"({ "w" : {"shape": [2], "dtype": "U8", "data_offsets": [0, 2]} , "__metadata__" : {} })";
  const SafetensorsHeader header = parsed(file_text(json, 2));
  const std::string start = text_of(header);
  EXPECT_EQ(start.size(), header.data_begin());
  EXPECT_EQ(parsed(start + "12").tensors(), header.tensors());
}

}  // namespace
}  // namespace ultra::checkpoint
