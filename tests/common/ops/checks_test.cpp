// What operations refuse.
// Covers: common/ops/dtype_check.hpp
// Covers: common/ops/token_check.hpp

#include "common/gpu/streams.hpp"
#include "common/ops/cross_entropy.hpp"
#include "common/ops/dtype_check.hpp"
#include "common/ops/token_check.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

Tensor of(DType dtype) { return Tensor::zeros(Device::cpu(), {2}, dtype); }

TEST(DTypeCheck, StoredOrSumsTakesTheTypeAndItsSums) {
  const auto check = [](DType found, DType expected) {
    expect_stored_or_sums("x", of(found), {2}, expected);
  };
  EXPECT_NO_THROW(check(DType::kBF16, DType::kBF16));
  EXPECT_NO_THROW(check(DType::kF32, DType::kBF16));
  EXPECT_NO_THROW(check(DType::kF64, DType::kF64));
  EXPECT_THROW(check(DType::kF64, DType::kBF16), ShapeError);
  EXPECT_THROW(check(DType::kBF16, DType::kF32), ShapeError);
  EXPECT_THAT(message_of<ShapeError>([&] { check(DType::kF16, DType::kBF16); }),
              HasSubstr("x: expected [2] of bf16, found [2] of f16"));
}

TEST(DTypeCheck, ConvertsTakesWhatMeetsInF32) {
  const auto check = [](DType found, DType expected) {
    expect_converts("x", of(found), {2}, expected);
  };
  for (const DType found : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const DType expected : {DType::kF32, DType::kBF16, DType::kF16}) {
      EXPECT_NO_THROW(check(found, expected));
    }
    EXPECT_THROW(check(found, DType::kF64), ShapeError);
    EXPECT_THROW(check(DType::kF64, found), ShapeError);
    EXPECT_THROW(check(DType::kI32, found), ShapeError);
  }
  EXPECT_NO_THROW(check(DType::kF64, DType::kF64));
}

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

TEST_F(TokenCheckTest, ATargetMayBeNone) {
  const std::vector<std::int32_t> values = {0, kNoTarget, 4, -2};
  const Tensor targets = Tensor::from<std::int32_t>(device, {4}, values);
  EXPECT_NO_THROW(expect_targets(targets.slice(0, {0, 3}), 5));
  EXPECT_EQ(message_of<ShapeError>([&] { expect_targets(targets, 4); }),
            "target 4 at index 2 is outside of the vocabulary [0, 4)");
  EXPECT_EQ(message_of<ShapeError>([&] { expect_targets(targets, 5); }),
            "target -2 at index 3 is outside of the vocabulary [0, 5)");
}

}  // namespace
}  // namespace ultra::ops
