// Tokens without a loss: what a mask's file must be, and what a sampler makes of it.
#include "common/data/token_mask.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "common/data/dataset.hpp"
#include "common/data/shared_dataset.hpp"
#include "common/ops/cross_entropy.hpp"
#include "tests/support/expect_message.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/mask_file.hpp"

namespace ultra::data {
namespace {

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

TEST_F(Masks, AllTokensHaveALossWithoutOne) {
  const Dataset text({1, 2, 3, 4, 5, 6, 7, 8}, "a text");
  EXPECT_EQ(text.mask(), nullptr);
  EXPECT_EQ(Sampler(text, 3, 2, seed).part_with_loss(random.between(0, 9)), 1.0);
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
