// What a forward pass keeps for its backward pass, and what layers add to the loss.
//
// Covers: common/nn/layer.hpp

#include "common/nn/saved.hpp"

#include "common/nn/layer.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::nn {
namespace {

using enum MemoryCategory;

class SavedTest : public ::testing::Test {
 protected:
  [[nodiscard]] Tensor tensor(std::size_t elements) const {
    return Tensor::zeros(device, {elements}, DType::kF64);
  }

  [[nodiscard]] static std::vector<std::string> paths(const Saved& saved) {
    std::vector<std::string> all;
    saved.for_each([&](const std::string& path, const Tensor&) { all.push_back(path); });
    return all;
  }

  Device device = Device::cpu();
};

TEST_F(SavedTest, PuttingTwiceReplaces) {
  Saved saved;
  saved.put("x", tensor(2));
  const Tensor second = tensor(3);
  saved.put("x", second);
  EXPECT_TRUE(saved.get("x").shares_storage(second));
  EXPECT_EQ(saved.bytes(), 24U);
  EXPECT_EQ(device.memory().current().total(), 24U);  // nothing keeps the first alive
}

TEST_F(SavedTest, IsATreeWhosePathsAreVisitedInOrder) {
  Saved saved;
  saved.child("block").child("norm").put("input", tensor(1));
  saved.put("tokens", tensor(1));
  saved.child("block").put("gate", tensor(1));
  static_cast<void>(saved.child("other"));
  EXPECT_THAT(paths(saved), ElementsAre("tokens", "block/gate", "block/norm/input"));
  EXPECT_FALSE(saved.empty());
  saved.child("block").clear();
  EXPECT_THAT(paths(saved), ElementsAre("tokens"));
  static_cast<void>(saved.take("tokens"));
  EXPECT_TRUE(saved.empty());  // subtrees without tensors do not count
}

TEST_F(SavedTest, AMissingTensorSaysWhatIsMissingAndWhy) {
  Saved saved;
  EXPECT_THAT(message_of<InternalError>([&] { static_cast<void>(saved.get("query")); }),
              HasSubstr("no saved activation 'query'"));
  const std::string message =
      message_of<InternalError>([&] { static_cast<void>(saved.take("query")); });
  EXPECT_THAT(message, HasSubstr("'query'"));
  EXPECT_THAT(message, HasSubstr("needs its own forward pass"));
}

TEST_F(SavedTest, WhatIsSavedCountsAsActivationsButOnlyIfItWasOther) {
  Saved saved;
  const Tensor x = tensor(4);
  const Tensor weight = Tensor::zeros(device, {3}, DType::kF64, kParameters);
  saved.put("x", x);
  saved.put("weight", weight);
  EXPECT_EQ(x.category(), kActivations);
  EXPECT_EQ(weight.category(), kParameters);
  EXPECT_EQ(device.memory().current()[kActivations], 32U);
  EXPECT_EQ(device.memory().current()[kOther], 0U);
}

TEST_F(SavedTest, ADiscardingTreeKeepsNothingAndRetagsNothing) {
  Saved saved(Saved::Mode::kDiscard);
  const Tensor x = tensor(4);
  saved.put("x", x);
  saved.child("deep").child("deeper").put("x", x);
  EXPECT_TRUE(saved.empty());
  EXPECT_FALSE(saved.has("x"));
  EXPECT_EQ(saved.bytes(), 0U);
  EXPECT_EQ(x.category(), kOther);
}

TEST_F(SavedTest, PutsAndDropsUnderPathsToo) {
  Saved saved;
  const Tensor x = tensor(2);
  saved.put("a/b/x", x);
  EXPECT_TRUE(saved.child("a").child("b").get("x").shares_storage(x));
  saved.drop("a/c/x");
  EXPECT_THAT(paths(saved), ElementsAre("a/b/x"));
  saved.drop("a/b/x");
  EXPECT_TRUE(saved.empty());
}

TEST_F(SavedTest, NotesWhatLayersCanMakeAgainWhereThatIsAskedFor) {
  const Tensor x = tensor(1);
  const Tensor y = tensor(2);
  Saved keeping;
  keeping.remakeable(x, [x] { return x; });
  EXPECT_TRUE(keeping.remakeables().empty());
  EXPECT_FALSE(keeping.can_remake(x));

  Saved& saved = keeping.child("block", Saved::Mode::kRemake);
  saved.child("a").remakeable(x, [x] { return x; });
  saved.child("b").child("c").remakeable(y, [y] { return y; });
  ASSERT_EQ(saved.remakeables().size(), 2U) << "of all subtrees, in order";
  EXPECT_TRUE(saved.remakeables()[0].tensor.shares_storage(x));
  EXPECT_TRUE(saved.child("d").can_remake(y.view({2, 1})));
  EXPECT_FALSE(saved.can_remake(tensor(2)));
  EXPECT_TRUE(keeping.remakeables().empty());

  saved.remakeable(x, [y] { return y; });
  ASSERT_EQ(saved.remakeables().size(), 2U) << "who says it last has overwritten the tensor";
  EXPECT_TRUE(saved.remakeables()[1].make().shares_storage(y));
}

TEST_F(SavedTest, BytesCountASharedStorageOnce) {
  Saved saved;
  const Tensor x = tensor(6);
  saved.put("whole", x);
  saved.child("a").put("view", x.view({2, 3}));
  saved.child("b").put("slice", x.slice(0, {0, 1}));
  EXPECT_EQ(saved.bytes(), 48U);
  saved.child("b").put("more", tensor(1));
  EXPECT_EQ(saved.bytes(), 56U);
  static_cast<void>(saved.take("whole"));
  EXPECT_EQ(saved.bytes(), 56U);  // the views keep the storage
}

TEST_F(SavedTest, KnowsItsPassInEverySubtree) {
  const Pass pass{.step = 4, .micro_batch = 2, .chunk = 1, .token_weight = 0.5};
  Saved saved(Saved::Mode::kKeep, pass);
  saved.put("x", tensor(1));
  const auto expect_pass = [](const Pass& found, bool recomputes) {
    EXPECT_EQ(found.step, 4U);
    EXPECT_EQ(found.micro_batch, 2U);
    EXPECT_EQ(found.chunk, 1U);
    EXPECT_EQ(found.token_weight, 0.5);
    EXPECT_EQ(found.recomputes, recomputes);
  };
  expect_pass(saved.child("a").child("b").pass(), false);
  Saved again = saved.child("a").recomputing();
  expect_pass(again.child("c").pass(), true);
  EXPECT_TRUE(again.empty()) << "the same pass, not its tensors";
  EXPECT_EQ(Saved().pass().token_weight, 1.0) << "tokens count, unless somebody says otherwise";
}

TEST_F(SavedTest, ForgetsNothingWhenItRecomputesWhatWasDiscarded) {
  const Saved discarding(Saved::Mode::kDiscard, {.micro_batch = 3});
  Saved again = discarding.recomputing();
  again.put("x", tensor(1));
  EXPECT_TRUE(again.has("x"));
  EXPECT_EQ(again.pass().micro_batch, 3U);
}

TEST(Pass, TermsOfTheLossCountOnce) {
  double terms = 0.5;
  Pass pass{.loss_terms = &terms};
  pass.add_to_loss(0.25);
  EXPECT_EQ(terms, 0.75);
  pass.recomputes = true;
  pass.add_to_loss(0.25);
  EXPECT_EQ(terms, 0.75) << "a forward pass that runs again";
  Pass().add_to_loss(1.0);  // nobody asks
}

}  // namespace
}  // namespace ultra::nn
