// Damaged JSON files of checkpoints: refused with a message, or read and consistent.
//
// Covers: chapters/04_zero/checkpoints/checkpoint_files.hpp

#include "tests/chapters/04_zero/checkpoints/checkpoint_json_fuzz_case.hpp"

namespace ultra::zero {
namespace {

using test::CheckpointJsonFuzz;

TEST_F(CheckpointJsonFuzz, ChangedFilesAreRefusedOrConsistent) { expect_of_every_kind(1'000); }

TEST_F(CheckpointJsonFuzz, RandomBytesAreRefused) {
  for (int round = 0; round < 1'000; ++round) {
    std::string text(random.between(0, 60), '\0');
    for (char& byte : text) byte = static_cast<char>(random.between(0, 255));
    ASSERT_FALSE(ultra::test::accepts_parts(text) || ultra::test::accepts_record(text) ||
                 ultra::test::accepts_config(text))
        << text;
  }
}

/// What a change here and there does not make.
TEST_F(CheckpointJsonFuzz, LongAndDeepTextsAreRefused) {
  const auto repeated = [](const std::string& text, int times) {
    std::string result;
    for (int i = 0; i < times; ++i) result += text;
    return result;
  };
  constexpr int kMany = 20'000;
  for (const std::string& text :
       {repeated("[", kMany), repeated("[", kMany) + repeated("]", kMany),
        repeated("{\"a\":", kMany), "[" + repeated("[],", kMany) + "[]]",
        "\"" + repeated("\x1b[31m", kMany) + "\"", repeated("9", kMany), "-" + repeated("9", kMany),
        "{\"" + repeated("k", kMany) + "\": 1}", "[{\"file\": \"" + repeated("\x01", kMany)}) {
    EXPECT_FALSE(ultra::test::accepts_parts(text)) << text.substr(0, 20);
    EXPECT_FALSE(ultra::test::accepts_record(text)) << text.substr(0, 20);
    EXPECT_FALSE(ultra::test::accepts_config(text)) << text.substr(0, 20);
  }
}

}  // namespace
}  // namespace ultra::zero
