// Damaged files of every kind: the fuzz target of tests/fuzz/ over its corpus, and over random
// changes of it and of random files.

#include "tests/common/checkpoint/safetensors/safetensors_fuzz_case.hpp"

namespace ultra::checkpoint {
namespace {

TEST(SafetensorsCorpus, GoodFilesAreReadAndBadOnesRefused) {
  const std::vector<CorpusFile> files = corpus();
  EXPECT_GE(files.size(), 20U);
  for (const CorpusFile& file : files) {
    EXPECT_EQ(accepts(file.content), file.name.starts_with("good_")) << file.name;
  }
}

TEST_F(SafetensorsFuzz, RandomFilesAreRead) {
  for (int round = 0; round < 300; ++round) {
    const std::string file = random_file();
    ASSERT_TRUE(accepts(file)) << file;
  }
}

TEST_F(SafetensorsFuzz, ChangedFilesAreRefusedOrConsistent) { expect_refused_or_consistent(5000); }

// ---- Memory -------------------------------------------------------------------------------------

/// Bytes asked for while a file's header is read.
std::size_t cost_of(const std::string& file) {
  const AllocationMeter meter;
  try {
    static_cast<void>(parse_header(bytes_of(file), file.size(), "model.safetensors"));
  } catch (const FileError&) {
  }
  return meter.bytes();
}

/// @brief The same text many times.
std::string repeated(const std::string& text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

TEST(SafetensorsMemory, TheMeterCounts) {
  const AllocationMeter meter;
  const std::vector<char> block(kMegabyte);
  EXPECT_GE(meter.bytes(), block.size());
}

TEST(SafetensorsMemory, APromiseOfMuchCostsNothing) {
  EXPECT_LT(cost_of(length_bytes(kMaxJsonBytes) + "{}"), 10'000U);
  EXPECT_LT(cost_of(length_bytes(kMaxJsonBytes + 1) + "{}"), 10'000U);
  EXPECT_LT(
      cost_of(file_text(
          R"({"a":{"dtype":"U8","shape":[1000000000000],"data_offsets":[0,1000000000000]}})")),
      10'000U);
}

// A vector that grows asks for at most twice the sum of what it ends with, and a number of two bytes
// ("0,") becomes eight; an entry of a tensor becomes an object of about twice its bytes.
TEST(SafetensorsMemory, AHeaderCostsAFewTimesItsBytes) {
  const std::string entry = R"({"dtype":"U8","shape":[],"data_offsets":[0,0]})";
  const std::vector<std::string> headers = {
      R"({"a":{"shape":[)" + repeated("0,", 50'000) + R"(0],"dtype":"U8","data_offsets":[0,0]}})",
      "{" + repeated("\"\":" + entry + ",", 1'500) + "\"a\":" + entry + "}",
      R"({"__metadata__":{"a":")" + repeated("x", 100'000) + "\"}}",
      R"({")" + repeated("x", 100'000),
      R"({"a":)" + repeated("[", 100'000),
      R"({"a":{"shape":[)" + repeated("9", 100'000) + "]}}"};
  for (const std::string& json : headers) {
    EXPECT_LT(cost_of(file_text(json)), 20 * json.size()) << json.substr(0, 40);
  }
}

}  // namespace
}  // namespace ultra::checkpoint
