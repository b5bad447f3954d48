// Damaged files of every kind: the fuzz target of tests/fuzz/ over its corpus, and over random
// changes of it and of random files.

#include <filesystem>

#include "build_config.hpp"
#include "common/checkpoint/safetensors_header.hpp"
#include "tests/common/checkpoint/allocation_meter.hpp"
#include "tests/common/checkpoint/file_text.hpp"
#include "tests/fuzz/safetensors_fuzz.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMegabyte = 1'000'000;

struct CorpusFile {
  std::string name;
  std::string content;
};

std::vector<CorpusFile> corpus() {
  std::vector<CorpusFile> files;
  const fs::path folder = fs::path(build::kSourceDir) / "tests/fuzz/corpus/safetensors";
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    files.push_back({entry.path().filename().string(), test::read_file(entry.path().string())});
  }
  std::sort(files.begin(), files.end(),
            [](const CorpusFile& a, const CorpusFile& b) { return a.name < b.name; });
  return files;
}

std::span<const std::byte> bytes_of(const std::string& file) {
  return std::as_bytes(std::span(file));
}

/// Runs the target as libFuzzer does, and holds it to little memory.
bool accepts(const std::string& file) {
  const AllocationMeter meter;
  const bool accepted = test::accepts_safetensors(bytes_of(file));
  EXPECT_LT(meter.bytes(), kMegabyte) << "for a file of " << file.size() << " bytes";
  return accepted;
}

TEST(SafetensorsCorpus, GoodFilesAreReadAndBadOnesRefused) {
  const std::vector<CorpusFile> files = corpus();
  EXPECT_GE(files.size(), 20U);
  for (const CorpusFile& file : files) {
    EXPECT_EQ(accepts(file.content), file.name.starts_with("good_")) << file.name;
  }
}

TEST(SafetensorsCorpus, IsWhatLibFuzzerCalls) {
  for (const CorpusFile& file : corpus()) {
    const auto* data = reinterpret_cast<const std::uint8_t*>(file.content.data());
    EXPECT_EQ(LLVMFuzzerTestOneInput(data, file.content.size()), 0) << file.name;
  }
  EXPECT_EQ(LLVMFuzzerTestOneInput(nullptr, 0), 0);
}

class SafetensorsFuzz : public test::RandomTest {
 protected:
  std::size_t below(std::size_t bound) { return random.between(0, bound - 1); }

  char random_byte() { return static_cast<char>(random.between(0, 255)); }

  std::string random_name() {
    std::string name;
    for (std::size_t letters = below(6); letters > 0; --letters) {
      name += random.pick<const char*>({"a", ".", "weight", "\xC3\xA9", "\n", "\"", "\\", "\x01"});
    }
    return name;
  }

  /// A valid file of random tensors, whose data is random bytes.
  std::string random_file() {
    std::vector<TensorSpec> specs(below(5));
    for (std::size_t i = 0; i < specs.size(); ++i) {
      specs[i].name = fmt::format("{}{}", random_name(), i);
      specs[i].type = kStoredTypes[below(kStoredTypes.size())];
      specs[i].shape.resize(below(4));
      for (std::size_t& extent : specs[i].shape) extent = below(4);
    }
    Metadata metadata;
    for (std::size_t entries = below(3); entries > 0; --entries) {
      metadata[random_name()] = random_name();
    }
    const SafetensorsHeader header = make_header(specs, metadata);
    const std::vector<std::byte> start = header.to_bytes();
    std::string file(reinterpret_cast<const char*>(start.data()), start.size());
    while (file.size() < header.file_size()) file += random_byte();
    return file;
  }

  /// One small change.
  void mutate(std::string& file) {
    const std::size_t place = below(file.size() + 1);
    const std::size_t count = std::min(file.size() - place, random.between(1, 16));
    switch (below(8)) {
      case 0:
        if (place < file.size()) file[place] = static_cast<char>(file[place] ^ (1 << below(8)));
        break;
      case 1:
        if (place < file.size()) file[place] = random_byte();
        break;
      case 2:
        file.insert(place, 1, random_byte());
        break;
      case 3:
        file.erase(place, count);
        break;
      case 4:
        file.insert(below(file.size() + 1), file.substr(place, count));
        break;
      case 5:
        file.resize(place);
        break;
      case 6:
        replace_number(file, place);
        break;
      default:
        file.insert(place, random.pick<const char*>({"{", "}", "[", "]", ",", ":", "\"", "-", "e9",
                                                     ".5", "null", "\"shape\":", "\\u0000", "\""}));
    }
  }

  /// Puts a number that is hard on arithmetic in the place of the next one.
  void replace_number(std::string& file, std::size_t from) {
    const char* const digits = "0123456789";
    const std::size_t begin = file.find_first_of(digits, from);
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(file.find_first_not_of(digits, begin), file.size());
    file.replace(begin, end - begin,
                 random.pick<const char*>({"0", "1", "8", "-1", "4294967296", "9223372036854775807",
                                           "18446744073709551615", "18446744073709551616", "1e300",
                                           "0.5", "99999999999999999999999999"}));
  }

  /// Sets the length of the JSON to where its last brace is now, so that what is inside is reached.
  void repair_length(std::string& file) {
    if (file.size() < kLengthBytes) return;
    const std::size_t brace = file.rfind('}');
    const bool has_json = brace != std::string::npos && brace >= kLengthBytes;
    const std::size_t end = has_json ? brace + 1 : file.size();
    file.replace(0, kLengthBytes, length_bytes(end - kLengthBytes));
  }
};

TEST_F(SafetensorsFuzz, RandomFilesAreRead) {
  for (int round = 0; round < 300; ++round) {
    const std::string file = random_file();
    ASSERT_TRUE(accepts(file)) << file;
  }
}

TEST_F(SafetensorsFuzz, ChangedFilesAreRefusedOrConsistent) {
  const std::vector<CorpusFile> files = corpus();
  int accepted = 0;
  constexpr int kRounds = 5000;
  for (int round = 0; round < kRounds; ++round) {
    std::string file = below(2) == 0 ? random_file() : files[below(files.size())].content;
    for (std::size_t changes = random.between(1, 4); changes > 0; --changes) mutate(file);
    if (below(4) != 0) repair_length(file);
    ASSERT_NO_THROW(accepted += accepts(file) ? 1 : 0) << "round " << round << ": " << file;
  }
  EXPECT_GT(accepted, 0) << "no change is harmless: the changes are too coarse";
  EXPECT_LT(accepted, kRounds / 2) << "hardly any change does harm: they are too fine";
}

TEST_F(SafetensorsFuzz, RandomBytesAreRefused) {
  for (int round = 0; round < 1000; ++round) {
    std::string file(random.between(16, 200), '\0');
    for (char& byte : file) byte = random_byte();
    if (below(2) == 0) repair_length(file);
    ASSERT_FALSE(accepts(file)) << file;
  }
}

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
