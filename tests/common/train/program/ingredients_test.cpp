#include "common/train/program/ingredients.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/compare.hpp"

namespace ultra::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Text = Slot<std::string>;

TEST(Slots, AreEmptyUntilSomebodyProvidesSomething) { EXPECT_EQ(Text().get(), ""); }

TEST(Slots, TakeALaterOfferInPlaceOfAnEarlierOne) {
  Text slot;
  slot.offer("first");
  slot.offer("second");
  EXPECT_EQ(slot.get(), "second");
}

TEST(Slots, AClaimStandsWhateverIsOfferedBeforeOrBehind) {
  Text slot;
  slot.offer("before");
  slot.claim("--zero", "claimed");
  slot.offer("behind");
  EXPECT_EQ(slot.get(), "claimed");
}

TEST(Slots, TwoClaimsAreRefusedInWordsThatNameBoth) {
  Text slot;
  slot.claim("--zero", "first");
  EXPECT_THAT(ultra::test::message_of<ConfigError>([&] { slot.claim("--servers", "second"); }),
              AllOf(HasSubstr("--zero and --servers do not go together"),
                    HasSubstr("Leave one of the two out")));
  EXPECT_EQ(slot.get(), "first");
}

}  // namespace
}  // namespace ultra::train
