#include "chapters/11_five_d/planner/search/restriction.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "chapters/11_five_d/planner/model/model_file.hpp"
#include "chapters/11_five_d/planner/search/layout_search.hpp"
#include "common/train/options/flags.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/programs/command_line.hpp"

namespace ultra::planner {
namespace {

using context_parallel::ContextMethod;
using pipeline_parallel::ScheduleKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using zero::ZeroStage;

const Workload kWork = {
    .model = model_for_plan("llama-8b", {}), .seq_len = 16384, .global_batch = 384};

SearchSpace space_of(const std::string& flags) {
  SearchSpace space{.gpus = 64};
  train::CommandParser parser;
  space.only.add_to(parser.app());
  std::vector<std::string> words = words_of_plan(ultra::test::words_of("--plan " + flags));
  words.erase(words.begin());
  static_cast<void>(parser.read(words));
  return space;
}

std::set<std::string> layouts_of(const std::string& flags) {
  std::set<std::string> all;
  for_each_layout(kWork, space_of(flags), [&](const Layout& layout) {
    all.insert(layout.str() + (layout.cp > 1 ? std::string(name_of(layout.context_method)) : ""));
  });
  return all;
}

/// Calls `check` for each layout that is asked about; there is one.
template <class Check>
void for_each(const std::string& flags, const Check& check) {
  SCOPED_TRACE(flags);
  std::size_t count = 0;
  for_each_layout(kWork, space_of(flags), [&](const Layout& layout) {
    ++count;
    check(layout);
  });
  EXPECT_GT(count, 0U);
}

TEST(Restriction, FixesWhatIsAskedAbout) {
  for_each("--tp 4,8 --pp 2", [](const Layout& l) {
    EXPECT_TRUE(l.tp == 4 || l.tp == 8);
    EXPECT_EQ(l.pp, 2U);
  });
  for_each("--dp 16 --cp 2 --cp-method ring", [](const Layout& l) {
    EXPECT_EQ(l.dp * l.cp, 32U);
    EXPECT_EQ(l.context_method, ContextMethod::kRing);
  });
  for_each("--micro-batch 3 --dp 64 --zero 2,3 --recompute selective", [](const Layout& l) {
    EXPECT_EQ(l.micro_batch, 3U) << "though no search would try it";
    EXPECT_GE(l.zero, ZeroStage::kGradients);
    EXPECT_EQ(l.recompute, memory::Recompute::kSelective);
  });
  for_each("--zero 1,3 --hybrid-shard 4", [](const Layout& l) {
    EXPECT_EQ(l.shard_ranks(), 4U);
    EXPECT_NE(l.zero, ZeroStage::kNone);
  });
  EXPECT_THAT(space_of("--plan-outermost pp,dp").only.outermost,
              ElementsAre(Outermost::kPipeline, Outermost::kData));
  for_each("--tp 2 --sp off", [](const Layout& l) { EXPECT_FALSE(l.sequence_parallel); });
}

TEST(Restriction, AsksAboutMoreThanASearchWould) {
  for_each("--pp 4 --zero 3", [](const Layout& l) { EXPECT_EQ(l.zero, ZeroStage::kParameters); });
  for_each("--pp 4 --schedule afab,interleaved:4", [](const Layout& l) {
    EXPECT_TRUE(l.schedule.kind == ScheduleKind::kAfab ||
                (l.schedule.kind == ScheduleKind::kInterleaved && l.schedule.chunks() == 4));
  });
  for_each("--cp 16", [](const Layout& l) { EXPECT_EQ(l.cp, 16U) << "1,024 tokens each"; });
}

TEST(Restriction, LeavesOut) {
  const auto none = [](const Layout& l) {
    EXPECT_NE(l.schedule.kind, ScheduleKind::kZbV);
    EXPECT_NE(l.schedule.kind, ScheduleKind::kInterleaved);
    EXPECT_NE(l.zero, ZeroStage::kParameters);
  };
  for_each("--plan-without zb-v,interleaved,zero-3,offload", none);
  EXPECT_TRUE(space_of("--plan-without offload").only.without_offload);
}

TEST(Restriction, PartsMakeUpTheWhole) {
  std::set<std::string> parts;
  for (const char* tp : {"1", "2", "4", "8", "16"}) {
    parts.merge(layouts_of(std::string("--tp ") + tp));
  }
  EXPECT_EQ(parts, layouts_of(""));
  EXPECT_EQ(layouts_of("--zero 0,1,2,3 --dp 1,2,4,8,16,32,64 --pp 1"), layouts_of("--pp 1"));
}

TEST(Restriction, IsReadFromATrainingsFlagsBesidePlanAlone) {
  EXPECT_THAT(
      words_of_plan({"--plan", "--tp", "4,8", "--zero=1", "--plan-gpus", "8", "--seq", "9"}),
      ElementsAre("--plan", "--plan-tp", "4,8", "--plan-zero=1", "--plan-gpus", "8", "--plan-seq",
                  "9"));
  EXPECT_THAT(words_of_plan({"--tp", "4"}), ElementsAre("--tp", "4"));
  EXPECT_EQ(space_of("--tp 4 --plan-without zb-v").only.str(), "tp 4; without zb-v");
}

TEST(Restriction, RefusesWhatIsNone) {
  const auto refusal = [](const std::string& flags) {
    return ultra::test::message_of<ConfigError>([&] { static_cast<void>(space_of(flags)); });
  };
  EXPECT_THAT(refusal("--tp 4,x"), HasSubstr("'x'. Beside --plan it takes numbers"));
  EXPECT_THAT(refusal("--dp 0"), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("--zero 4"), HasSubstr("0, 1, 2 or 3"));
  EXPECT_THAT(refusal("--schedule 2f2b"), HasSubstr("2f2b"));
  EXPECT_THAT(refusal("--cp-method hop"), HasSubstr("all-gather, ring or ulysses"));
  EXPECT_THAT(refusal("--plan-outermost tp"), HasSubstr("dp or pp"));
  EXPECT_THAT(refusal("--plan-without zero-7"), HasSubstr("0, 1, 2 or 3"));
}

}  // namespace
}  // namespace ultra::planner
