#include "chapters/07_pipeline_parallel/schedule/action_names.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ultra::pipeline_parallel {
namespace {

TEST(ActionNames, AreThoseThatActionsAreWrittenWith) {
  for (const auto& [kind, letters] : kActionNames) {
    const train::Action action{.kind = kind, .micro_batch = 12};
    EXPECT_EQ(action.str(), std::string(letters) + "12");
    EXPECT_EQ(letters_of(kind), letters);
    EXPECT_EQ(kind_of(letters), kind);
  }
}

TEST(ActionNames, NameNothingElse) {
  for (const char* letters : {"", "f", "WB", "FF", "BWU"}) {
    EXPECT_FALSE(kind_of(letters).has_value()) << letters;
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
