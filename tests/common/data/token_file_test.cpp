// Covers: common/data/token_source.hpp
// Covers: common/data/token_mask.hpp

#include "common/data/token_file.hpp"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/data/dataset.hpp"
#include "common/data/shared_dataset.hpp"
#include "common/data/token_mask.hpp"
#include "common/ops/cross_entropy.hpp"
#include "tests/support/expect_message.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/sanitizer.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/mask_file.hpp"

namespace ultra::data {
namespace {

template <class T>
std::string bytes_of(const std::vector<T>& numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

/// llm.c's header, by its dev/data/data_common.py.
std::string header(std::uint32_t magic, std::uint32_t version, std::uint32_t tokens) {
  std::vector<std::uint32_t> numbers(256, 0);
  numbers[0] = magic;
  numbers[1] = version;
  numbers[2] = tokens;
  return bytes_of(numbers);
}

std::vector<std::int32_t> tokens_of(const Dataset& dataset) {
  std::vector<std::int32_t> tokens(dataset.size());
  dataset.read(0, tokens);
  return tokens;
}

class TokenFiles : public test::RandomTest {
 protected:
  std::string refusal(const std::string& path, TokenFormat format) {
    return message_of<FileError>([&] { static_cast<void>(open_token_file(path, format)); });
  }

  template <class T>
  std::vector<T> draw(std::size_t count, std::size_t below) {
    std::vector<T> ids;
    for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<T>(random.between(0, below)));
    return ids;
  }

  test::TemporaryFolder folder;
};

TEST_F(TokenFiles, OfNanoGptAreIdsAndNothingElse) {
  const auto narrow = draw<std::uint16_t>(997, 65535);
  const Dataset u16 =
      Dataset::from_tokens(folder.write("u16.bin", bytes_of(narrow)), TokenFormat::kU16);
  EXPECT_EQ(tokens_of(u16), std::vector<std::int32_t>(narrow.begin(), narrow.end()));
  const auto wide = draw<std::uint32_t>(501, 200'000);
  const Dataset u32 =
      Dataset::from_tokens(folder.write("u32.bin", bytes_of(wide)), TokenFormat::kU32);
  EXPECT_EQ(tokens_of(u32), std::vector<std::int32_t>(wide.begin(), wide.end()));
  EXPECT_EQ(u32[500], static_cast<std::int32_t>(wide[500]));
  EXPECT_EQ(u32.described_size(), "501 tokens");
}

TEST_F(TokenFiles, OfLlmCHaveAHeader) {
  const std::vector<std::uint16_t> gpt2 = {50256, 1, 2, 3};
  const std::string u16 = folder.write("gpt2.bin", header(20240520, 1, 4) + bytes_of(gpt2));
  EXPECT_THAT(tokens_of(Dataset::from_tokens(u16, TokenFormat::kU16)), ElementsAre(50256, 1, 2, 3));
  const std::vector<std::uint32_t> llama3 = {128000, 7};
  const std::string u32 = folder.write("llama3.bin", header(20240801, 7, 2) + bytes_of(llama3));
  EXPECT_THAT(tokens_of(Dataset::from_tokens(u32, TokenFormat::kU32)), ElementsAre(128000, 7));
  EXPECT_THAT(refusal(u16, TokenFormat::kU32),
              AllOf(HasSubstr("u16 tokens"), HasSubstr("Give --tokens u16")));
  EXPECT_THAT(refusal(u32, TokenFormat::kU16), HasSubstr("Give --tokens u32"));
  const std::string cut = folder.write("cut.bin", header(20240520, 1, 5) + bytes_of(gpt2));
  EXPECT_THAT(refusal(cut, TokenFormat::kU16),
              AllOf(HasSubstr("1,032 bytes"), HasSubstr("5 tokens"), HasSubstr("1,034 bytes")));
}

TEST_F(TokenFiles, ThatAreNoneAreRefused) {
  EXPECT_THAT(refusal(folder.path("none"), TokenFormat::kU16), HasSubstr("does not exist"));
  EXPECT_THAT(refusal(folder.path(), TokenFormat::kU16), HasSubstr("is a folder"));
  EXPECT_THAT(refusal("/dev/null", TokenFormat::kU16), HasSubstr("is a device or a pipe"));
  EXPECT_THAT(refusal(folder.write("empty", ""), TokenFormat::kU32), HasSubstr("has no tokens"));
  EXPECT_THAT(refusal(folder.write("odd", "12345"), TokenFormat::kU16),
              AllOf(HasSubstr("5 % 2 = 1"), HasSubstr("leave --tokens out")));
  const std::string locked = folder.write("locked", "1234");
  std::filesystem::permissions(locked, std::filesystem::perms::none);
  const test::WithoutPrivileges without;
  EXPECT_THAT(refusal(locked, TokenFormat::kU16), HasSubstr("Check its permissions"));
}

TEST_F(TokenFiles, ATokenOutsideOfTheVocabularyIsNamedWithItsPlace) {
  const std::vector<std::uint16_t> ids = {1, 2, 299, 300, 5};
  const std::string plain = folder.write("plain.bin", bytes_of(ids));
  const Dataset dataset = Dataset::from_tokens(plain, TokenFormat::kU16);
  EXPECT_EQ(dataset.with_vocabulary(301).size(), 5U);
  EXPECT_THAT(message_of<FileError>([&] { static_cast<void>(dataset.with_vocabulary(300)); }),
              AllOf(HasSubstr("plain.bin"), HasSubstr("token 300 at index 3 (byte 6 of the file)"),
                    HasSubstr("[0, 300)"), HasSubstr("--vocab")));
  const std::string headed = folder.write("headed.bin", header(20240520, 1, 5) + bytes_of(ids));
  EXPECT_THAT(
      message_of<FileError>([&] {
        static_cast<void>(Dataset::from_tokens(headed, TokenFormat::kU16).with_vocabulary(300));
      }),
      HasSubstr("index 3 (byte 1,030 of the file)"));
  const std::vector<std::uint32_t> huge = {1, 4'000'000'000U};
  EXPECT_THAT(message_of<FileError>([&] {
                static_cast<void>(Dataset::from_tokens(folder.write("huge.bin", bytes_of(huge)),
                                                       TokenFormat::kU32)
                                      .with_vocabulary(std::numeric_limits<std::size_t>::max()));
              }),
              HasSubstr("token 4000000000 at index 1"));
}

/// A file of zeros without blocks on the disk, but for its last token.
std::string sparse(const test::TemporaryFolder& folder, std::size_t tokens, std::uint16_t last) {
  const std::string path = folder.write("long.bin", "");
  std::filesystem::resize_file(path, 2 * tokens);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(2 * (tokens - 1)));
  file.write(reinterpret_cast<const char*>(&last), sizeof(last));
  return path;
}

TEST_F(TokenFiles, LargerThanTheMemoryTrain) {
  if (test::sanitizer_owns_the_heap()) GTEST_SKIP() << "a sanitizer needs address space itself";
  constexpr std::size_t kTokens = std::size_t{1} << 42;  // 8 TB
  std::string path;
  try {
    path = sparse(folder, kTokens, 9);
  } catch (const std::filesystem::filesystem_error&) {
    GTEST_SKIP() << "no file of 8 TB fits this file system";
  }
  const Dataset dataset = Dataset::from_tokens(path, TokenFormat::kU16).with_vocabulary(10);
  EXPECT_EQ(dataset.size(), kTokens);
  EXPECT_EQ(dataset[kTokens - 1], 9);
  const Batch batch = Sampler(dataset, 16, 4, 1).batch(Device::cpu(), 0, {0, 4});
  EXPECT_EQ(batch.tokens.shape(), Shape({4, 16}));
  EXPECT_THAT(message_of<FileError>([&] {
                static_cast<void>(Dataset::from_tokens(path, TokenFormat::kU16).with_vocabulary(9));
              }),
              HasSubstr("token 9 at index 4,398,046,511,103"))
      << "the end of the file is looked at before the training";
}

TEST_F(TokenFiles, ThatBecomeShorterAreAnErrorAndNoSignal) {
  const std::string path = folder.write("ids.bin", std::string(1000, '\0'));
  const Dataset dataset = Dataset::from_tokens(path, TokenFormat::kU16);
  std::filesystem::resize_file(path, 100);
  EXPECT_THAT(message_of<FileError>([&] { static_cast<void>(dataset[400]); }),
              AllOf(HasSubstr("ends at byte 800"), HasSubstr("shorter")));
}

TEST_F(TokenFiles, HaveAHashThatChangesWithTheirIdsAndFormat) {
  const auto ids = draw<std::uint16_t>(600, 999);
  auto other = ids;
  other[599] ^= 1U;
  const auto hash_of = [&](const std::vector<std::uint16_t>& numbers, TokenFormat format) {
    return Dataset::from_tokens(folder.write("ids.bin", bytes_of(numbers)), format).hash();
  };
  const std::uint64_t hash = hash_of(ids, TokenFormat::kU16);
  EXPECT_EQ(hash_of(ids, TokenFormat::kU16), hash);
  EXPECT_NE(hash_of(other, TokenFormat::kU16), hash);
  EXPECT_NE(hash_of(ids, TokenFormat::kU32), hash);
}

// Tokens without a loss: what a mask's file must be, and what a sampler makes of it.

constexpr std::size_t kTokens = 200;  // token i of the text is i

class Masks : public test::RandomTest {
 protected:
  Dataset masked(const std::string& mask) {
    std::vector<std::uint8_t> bytes(kTokens);
    for (std::size_t i = 0; i < kTokens; ++i) bytes[i] = static_cast<std::uint8_t>(i);
    return Dataset(std::move(bytes), "counting").with_mask(folder.write("mask", mask));
  }

  static std::size_t with_loss(const Batch& batch) {
    return static_cast<std::size_t>(std::ranges::count_if(
        batch.targets.span<std::int32_t>(), [](std::int32_t t) { return t != ops::kNoTarget; }));
  }

  const test::TemporaryFolder folder;
};

TEST_F(Masks, TargetsAreThoseWithALoss) {
  for (const double density : {0.0, 0.02, 0.5, 1.0}) {
    const std::string mask = test::random_mask(random, kTokens, density);
    const Sampler sampler(masked(mask), random.between(1, 20), 5, seed);
    for (std::size_t step = 0; step < 4; ++step) {
      const Batch batch = sampler.batch(device, step, {0, 5});
      const auto tokens = batch.tokens.span<std::int32_t>();
      const auto targets = batch.targets.span<std::int32_t>();
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const auto next = static_cast<std::size_t>(tokens[i]) + 1;
        ASSERT_EQ(targets[i], mask[next] == 1 ? tokens[i] + 1 : ops::kNoTarget);
      }
      const std::size_t count = std::max<std::size_t>(with_loss(batch), 1);
      EXPECT_DOUBLE_EQ(sampler.part_with_loss(step) * static_cast<double>(sampler.global_tokens()),
                       static_cast<double>(count));
    }
  }
}

TEST_F(Masks, EachShareKnowsThePartOfTheWholeBatch) {
  const Sampler whole(masked(test::random_mask(random, kTokens, 0.3)), 7, 6, seed);
  for (std::size_t step = 0; step < 5; ++step) {
    for (const Range share : {Range{0, 1}, Range{1, 6}, Range{0, 6}}) {
      EXPECT_EQ(whole.share(share).part_with_loss(step), whole.part_with_loss(step));
    }
  }
}

TEST_F(Masks, AnotherMaskIsAnotherText) {
  std::string mask = test::random_mask(random, kTokens, 0.5);
  const Dataset one = masked(mask);
  mask[random.between(0, kTokens - 1)] ^= 1;
  const Dataset other = masked(mask);
  EXPECT_NE(one.hash(), other.hash());
  EXPECT_THAT(one.source(), testing::StartsWith("counting with the mask /"));
}

TEST_F(Masks, TheSameTextIsReadWithAndWithout) {
  const std::string text = folder.write("text", std::string(50, 'a'));
  const std::string mask = folder.write("mask", std::string(50, '\1'));
  SharedDataset shared;
  EXPECT_NE(shared.open({.path = text, .mask = mask}).mask(), nullptr);
  EXPECT_EQ(shared.open({.path = text}).mask(), nullptr);
}

TEST_F(Masks, WhatIsNoMaskIsRefused) {
  const auto refused = [&](const std::string& path, const std::vector<std::string>& says) {
    test::expect_message<FileError>([&] { TokenMask(path, 8, "'a text'"); }, says);
    test::expect_message<FileError>([&] { TokenMask(path, 8, "'a text'"); },
                                    {"mask '" + path + "'", "Give --mask a file with a byte"});
  };
  refused(folder.path("none"), {"does not exist"});
  refused(folder.path(), {"is not a regular file"});
  refused(folder.write("short", std::string(7, '\1')), {"has 7 bytes, and 'a text' has 8 tokens"});
  refused(folder.write("empty", ""), {"has 0 bytes"});
  refused(folder.write("digits", "01010101"), {"has the byte 48 at index 0"});
  refused(folder.write("two", std::string(6, '\1') + "\2\1"), {"has the byte 2 at index 6"});
  refused(folder.write("zeros", std::string(8, '\0')), {"has no 1: nothing would be learnt"});
}

TEST_F(Masks, WhatMayNotBeReadIsRefused) {
  const std::string closed = folder.write("closed/mask", std::string(8, '\1'));
  const std::string secret = folder.write("secret", std::string(8, '\1'));
  std::filesystem::permissions(folder.path("closed"), std::filesystem::perms::none);
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  const test::WithoutPrivileges nobody;
  for (const std::string& path : {closed, secret}) {
    test::expect_message<FileError>([&] { TokenMask(path, 8, "a text"); },
                                    {"cannot be read: Permission denied"});
  }
}

}  // namespace
}  // namespace ultra::data
