#pragma once
/// @file
/// Damaged safetensors files of every kind for the fuzz target of tests/fuzz/.

#include <filesystem>

#include "build_config.hpp"
#include "common/checkpoint/safetensors/safetensors_header.hpp"
#include "tests/common/checkpoint/file_text.hpp"
#include "tests/common/checkpoint/safetensors/allocation_meter.hpp"
#include "tests/fuzz/safetensors_fuzz.hpp"
#include "tests/support/files/file_mutations.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::checkpoint {

inline constexpr std::size_t kMegabyte = 1'000'000;

/// @brief A file of tests/fuzz/corpus/.
struct CorpusFile {
  std::string name;
  std::string content;
};

inline std::vector<CorpusFile> corpus() {
  std::vector<CorpusFile> files;
  const std::filesystem::path folder =
      std::filesystem::path(build::kSourceDir) / "tests/fuzz/corpus/safetensors";
  for (const std::filesystem::directory_entry& entry :
       std::filesystem::directory_iterator(folder)) {
    files.push_back({entry.path().filename().string(), test::read_file(entry.path().string())});
  }
  std::sort(files.begin(), files.end(),
            [](const CorpusFile& a, const CorpusFile& b) { return a.name < b.name; });
  return files;
}

inline std::span<const std::byte> bytes_of(const std::string& file) {
  return std::as_bytes(std::span(file));
}

/// @brief Runs the target as libFuzzer does, and holds it to little memory.
inline bool accepts(const std::string& file) {
  const AllocationMeter meter;
  const bool accepted = test::accepts_safetensors(bytes_of(file));
  EXPECT_LT(meter.bytes(), kMegabyte) << "for a file of " << file.size() << " bytes";
  return accepted;
}

/// @brief Random files and changes of them.
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

  /// Sets the length of the JSON to where its last brace is now, so that what is inside is reached.
  void repair_length(std::string& file) {
    if (file.size() < kLengthBytes) return;
    const std::size_t brace = file.rfind('}');
    const bool has_json = brace != std::string::npos && brace >= kLengthBytes;
    const std::size_t end = has_json ? brace + 1 : file.size();
    file.replace(0, kLengthBytes, length_bytes(end - kLengthBytes));
  }

  /// Changed files, random ones and those of the corpus: refused, or consistent.
  void expect_refused_or_consistent(int rounds) {
    const std::vector<CorpusFile> files = corpus();
    int accepted = 0;
    for (int round = 0; round < rounds; ++round) {
      std::string file = below(2) == 0 ? random_file() : files[below(files.size())].content;
      for (std::size_t changes = random.between(1, 4); changes > 0; --changes) {
        test::mutate(random, file);
      }
      if (below(4) != 0) repair_length(file);
      ASSERT_NO_THROW(accepted += accepts(file) ? 1 : 0) << "round " << round << ": " << file;
    }
    EXPECT_GT(accepted, 0) << "no change is harmless: the changes are too coarse";
    EXPECT_LT(accepted, rounds / 2) << "hardly any change does harm: they are too fine";
  }
};

}  // namespace ultra::checkpoint
