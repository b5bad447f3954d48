// Covers: chapters/05_tensor_sequence_parallel/scaling/playbook_figures.hpp
#include "chapters/05_tensor_sequence_parallel/scaling/playbook_figures.hpp"

#include <gtest/gtest.h>

namespace ultra::tensor_parallel {
namespace {

/// Its drop from 8 to 16 ranks, "around 43 %" in its text.
TEST(PlaybookFigures, AreThePublishedOnes) {
  ASSERT_EQ(playbook_figures().size(), 5U);
  const PlaybookFigure eight = playbook_figures()[2];
  const PlaybookFigure sixteen = playbook_figures()[3];
  EXPECT_EQ(eight, (PlaybookFigure{8, 20, 10888.53}));
  EXPECT_EQ(sixteen, (PlaybookFigure{16, 40, 6159.3}));
  EXPECT_NEAR(sixteen.tokens_per_second_per_rank / eight.tokens_per_second_per_rank, 1.0 - 0.434,
              0.0005);
}

}  // namespace
}  // namespace ultra::tensor_parallel
