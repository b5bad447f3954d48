#include "common/train/run/divergence.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"

namespace ultra::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string message_for(double value) {
  TrainOptions options;
  options.learning_rate = 0.5;
  options.warmup = 7;
  options.clip_norm = 2.0;
  return ultra::test::message_of<NumericError>(
      [&] { expect_finite("gradient norm", value, 12, options); });
}

TEST(ExpectFinite, SaysWhatWhereAndWhichFlagsMayHelp) {
  EXPECT_THAT(message_for(std::nan("")),
              AllOf(HasSubstr("the gradient norm is nan at step 12"), HasSubstr("--lr (0.5)"),
                    HasSubstr("--warmup (7)"), HasSubstr("--clip (2)")));
  EXPECT_THAT(message_for(-std::nan("")), HasSubstr("norm is nan")) << "a NaN has no sign";
  EXPECT_THAT(message_for(INFINITY), HasSubstr("norm is inf"));
  EXPECT_THAT(message_for(-INFINITY), HasSubstr("norm is -inf"));
}

TEST(ExpectFinite, TakesEveryFiniteNumber) {
  for (const double value : {0.0, -1.0, std::numeric_limits<double>::max()}) {
    EXPECT_NO_THROW(expect_finite("loss", value, 1, {}));
  }
}

}  // namespace
}  // namespace ultra::train
