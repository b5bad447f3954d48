#include "common/nn/token_places.hpp"

#include <gtest/gtest.h>

namespace ultra::nn {
namespace {

TEST(TokenPlaces, KnowWhereTheDocumentsOfEachSequenceBegin) {
  const TokenPlaces places{.sequence_len = 3, .document_begins = {0, 0, 2, 0, 1, 1}};
  const auto begins = places.begins(1, {1, 3});
  ASSERT_EQ(begins.size(), 2U);
  EXPECT_EQ(begins[0], 1);
  EXPECT_EQ(begins[1], 1);
  EXPECT_EQ(places.begins(0, {2, 3})[0], 2);
}

TEST(TokenPlaces, WithoutDocumentsThereAreNoBegins) {
  EXPECT_TRUE((TokenPlaces{.positions = {0, 3}, .sequence_len = 4}.begins(0, {0, 2}).empty()));
}

}  // namespace
}  // namespace ultra::nn
