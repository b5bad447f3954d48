// Terms that layers add to the loss.
#include "common/nn/saved.hpp"

#include <gtest/gtest.h>

namespace ultra::nn {
namespace {

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
