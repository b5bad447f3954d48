#include "common/ops/token_check.hpp"

#include "common/gpu/streams.hpp"
#include "common/ops/cross_entropy.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

// Only the CPU looks at its tokens.
class TokenCheckTest : public test::RandomTest {
 protected:
  Device device = Device::cpu();
};

TEST_F(TokenCheckTest, NobodyWaitsForThoseOfADeviceWithStreams) {
  const Device emulated = Device::create(DeviceKind::kEmulated);
  const Tensor tokens = test::filled(emulated, {2}, DType::kI32, 7.0);
  const std::uint64_t before = emulated.streams().synchronizations();
  EXPECT_NO_THROW(expect_token_ids("token", tokens, 4));
  EXPECT_NO_THROW(expect_targets(tokens, 4));
  EXPECT_EQ(emulated.streams().synchronizations(), before);
}

TEST_F(TokenCheckTest, AcceptsEveryTokenOfTheVocabulary) {
  const std::size_t vocab = random.between(1, 300);
  EXPECT_NO_THROW(expect_token_ids("token", random.tokens(device, {4, 9}, vocab), vocab));
  EXPECT_NO_THROW(expect_token_ids("token", Tensor::zeros(device, {0}, DType::kI32), 0));
}

TEST_F(TokenCheckTest, NamesTheFirstTokenThatIsNone) {
  const std::vector<std::int32_t> values = {0, 3, 4, -7};
  const Tensor tokens = Tensor::from<std::int32_t>(device, {2, 2}, values);
  EXPECT_EQ(message_of<ShapeError>([&] { expect_token_ids("target", tokens, 4); }),
            "target 4 at index 2 is outside of the vocabulary [0, 4)");
  EXPECT_EQ(message_of<ShapeError>([&] { expect_token_ids("token", tokens, 5); }),
            "token -7 at index 3 is outside of the vocabulary [0, 5)");
}

TEST_F(TokenCheckTest, ATargetMayBeNone) {
  const std::vector<std::int32_t> values = {0, kNoTarget, 4, -2};
  const Tensor targets = Tensor::from<std::int32_t>(device, {4}, values);
  EXPECT_NO_THROW(expect_targets(targets.slice(0, {0, 3}), 5));
  EXPECT_EQ(message_of<ShapeError>([&] { expect_targets(targets, 4); }),
            "target 4 at index 2 is outside of the vocabulary [0, 4)");
  EXPECT_EQ(message_of<ShapeError>([&] { expect_targets(targets, 5); }),
            "target -2 at index 3 is outside of the vocabulary [0, 5)");
}

TEST_F(TokenCheckTest, RefusesOtherDTypes) {
  EXPECT_THROW(expect_token_ids("token", Tensor::zeros(device, {2}, DType::kF32), 4), ShapeError);
}

}  // namespace
}  // namespace ultra::ops
