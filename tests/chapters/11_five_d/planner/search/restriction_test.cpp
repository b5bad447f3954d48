// Covers: chapters/11_five_d/planner/search/reasons.hpp

#include "chapters/11_five_d/planner/search/restriction.hpp"

#include <set>

#include "chapters/11_five_d/planner/model/model_file.hpp"
#include "chapters/11_five_d/planner/search/layout_search.hpp"
#include "chapters/11_five_d/planner/search/reasons.hpp"
#include "common/train/options/flags.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

using context_parallel::ContextMethod;
using pipeline_parallel::ScheduleKind;
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

// Reasons: where the time goes, what would change it, what recipes say.

Question question(const char* model, const char* cluster = "dgx-h100") {
  return {.work = {.model = *find_model(model), .seq_len = 4096, .global_batch = 1024},
          .cluster = *replay::find_cluster(cluster),
          .software = find_software("modern")};
}

TEST(Reasons, TheBottleneckIsWhatWasMadeSlow) {
  Question slow = question("llama-8b");
  slow.cluster.inter.bandwidth /= 1000;
  EXPECT_EQ(bottleneck(predict(slow, {.dp = 64})).what, "exchanges between replicas");
  slow = question("llama-8b");
  slow.cluster.intra.bandwidth /= 100;
  EXPECT_EQ(bottleneck(predict(slow, {.dp = 8, .tp = 8})).what, "tensor-parallel exchanges");
  slow = question("llama-8b");
  slow.work.global_batch = 8;
  EXPECT_EQ(bottleneck(predict(slow, {.dp = 4, .pp = 16})).what, "the pipeline's bubble");
  EXPECT_EQ(
      bottleneck(predict(question("llama-8b"), {.dp = 8, .recompute = memory::Recompute::kFull}))
          .what,
      "recomputation");
}

TEST(Reasons, WhatWouldChangeItIsTheBottlenecksCure) {
  Question slow = question("llama-8b");
  slow.cluster.inter.bandwidth /= 1000;
  const Prediction p = predict(slow, {.dp = 64});
  EXPECT_THAT(what_ifs(slow, p).front().change,
              ::testing::AnyOf(HasSubstr("network"), HasSubstr("batch")));
  EXPECT_GT(what_ifs(slow, p).front().gain, 0.3);
}

/// What a source says of a layout; nothing when it has no rule for it.
std::optional<Recipe> advice_of(const char* source, const char* model, const Layout& layout) {
  for (const Recipe& one : recipes(question(model), layout)) {
    if (one.source == source) return one;
  }
  return {};
}

TEST(Reasons, RecipesFollowOrNot) {
  constexpr ZeroStage kThree = ZeroStage::kParameters;
  struct Row {
    const char* source;
    const char* model;
    Layout layout;
    std::optional<bool> followed;  ///< nothing: it has no rule
  };
  const Row rows[] = {
      {"Playbook", "llama-8b", {.dp = 8, .zero = kThree}, true},
      {"Playbook", "llama-8b", {.pp = 2, .tp = 4}, false},
      {"Playbook", "llama-70b", {.dp = 4, .pp = 2, .tp = 8}, true},
      {"Playbook", "llama-70b", {.dp = 64}, false},
      {"Playbook", "llama-70b", {.dp = 4, .pp = 8, .tp = 8}, true},
      {"Playbook", "llama-405b", {.dp = 64, .pp = 16, .tp = 8}, true},
      {"Playbook", "llama-405b", {.dp = 8, .pp = 8, .tp = 8}, true},
      {"Playbook", "llama-405b", {.dp = 4, .pp = 8, .tp = 8}, {}},  // above its sizes
      {"Narayanan et al. 2021", "llama-70b", {.dp = 2, .pp = 4, .tp = 8}, true},
      {"Narayanan et al. 2021", "llama-70b", {.dp = 8, .tp = 8}, true},
      {"Narayanan et al. 2021", "llama-70b", {.dp = 64}, true},
      {"Narayanan et al. 2021",
       "llama-70b",
       {.dp = 64, .zero = kThree},
       false},  // by sharding alone
      {"Narayanan et al. 2021", "llama-70b", {.dp = 8, .tp = 8, .offload = true}, false},
      {"Narayanan et al. 2021", "llama-70b", {.dp = 4, .tp = 16}, false},
      {"Narayanan et al. 2021", "llama-70b", {.dp = 8, .pp = 8}, false},           // pp before tp
      {"Narayanan et al. 2021", "llama-70b", {.dp = 4, .pp = 8, .tp = 2}, false},  // or the node
      {"Textbook", "llama-8b", {.dp = 8}, true},
      {"Textbook", "llama-8b", {.dp = 4, .tp = 2}, false},
      {"Textbook", "llama-8b", {.dp = 64}, {}},
      {"Textbook", "llama2-13b", {.dp = 64, .zero = kThree}, true},
      {"Textbook", "llama2-13b", {.dp = 64}, false},
      {"Textbook", "llama-70b", {.dp = 64, .zero = kThree}, true},
      {"Textbook", "llama-70b", {.dp = 2, .pp = 4, .tp = 8}, false},
      {"Textbook", "llama-405b", {.dp = 2, .pp = 8, .tp = 8}, true},
      {"Textbook", "llama-405b", {.dp = 64, .zero = kThree}, false}};
  for (const Row& row : rows) {
    const auto recipe = advice_of(row.source, row.model, row.layout);
    EXPECT_EQ(recipe ? std::optional(recipe->followed) : std::nullopt, row.followed)
        << row.source << ", " << row.model << ": " << row.layout.str();
  }
  const auto advice = [](const char* model, const Layout& layout) {
    return advice_of("Playbook", model, layout).value().advice;
  };
  EXPECT_THAT(advice("llama-70b", {.dp = 64, .tp = 8}), HasSubstr("512"));
  EXPECT_THAT(advice("llama-405b", {.dp = 64, .pp = 16, .tp = 8}), HasSubstr("1,024"));
}

}  // namespace
}  // namespace ultra::planner
