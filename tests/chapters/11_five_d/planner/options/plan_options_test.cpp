// The planner's flags, and the answers.
//
// Covers: chapters/11_five_d/planner/options/plan_options.hpp, report/plan_report.hpp
#include "chapters/11_five_d/planner/options/plan_options.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/expect_message.hpp"
#include "tests/support/programs/parse_options.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

using nlohmann::json;

std::string answer(const std::vector<std::string>& flags) {
  const auto options = ultra::test::parsed<PlanOptions>(flags);
  options.validate();
  return options.answer({});
}

void refuses(const std::vector<std::string>& flags, const std::vector<std::string>& words) {
  test::expect_message<ConfigError>([&] { (void)answer(flags); }, words);
}

TEST(PlanOptions, APlanForPeople) {
  const std::string text = answer({"--plan", "--plan-model", "llama-70b", "--plan-gpus", "128"});
  for (const char* part :
       {"llama-70b", "128 x h100", "1. Fit in memory.", "2. Reach the batch.", "3. Make it fast.",
        "Where the time of the first goes", "What the same layout would gain by, and a new plan",
        "Rules of thumb", "layouts are within that", "GB of a GPU:", "  10  --dp", "11_five_d:",
        "Megatron-LM:", "--tensor-model-parallel-size", "nanotron:", "DeepSpeed:", "torchtitan:"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(PlanOptions, APlanWithFrozenWeights) {
  const auto plan = [](const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--plan", "--plan-gpus", "16", "--plan-zero", "3"};
    flags.insert(flags.end(), more.begin(), more.end());
    return answer(flags);
  };
  const std::string text = plan({"--plan-freeze", "mlp,embed_tokens"});
  for (const char* part :
       {"trains all but mlp,embed_tokens", "--freeze mlp,embed_tokens", "--shards rows"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(plan({}), testing::Not(HasSubstr("--shards")));
  refuses({"--plan", "--plan-freeze", "mpl"}, {"--freeze 'mpl' is in no parameter's name"});
}

TEST(PlanOptions, APlanForPrograms) {
  const json plan = json::parse(answer({"--plan", "--plan-json", "--plan-gpus", "16"}));
  EXPECT_EQ(plan["gpus"], 16);
  ASSERT_EQ(plan["layouts"].size(), 10U);
  double before = 0;
  for (const json& layout : plan["layouts"]) {
    EXPECT_GE(layout["step_seconds"].get<double>(), before);
    before = layout["step_seconds"];
    EXPECT_EQ(layout["dp"].get<int>() * layout["pp"].get<int>() * layout["cp"].get<int>() *
                  layout["tp"].get<int>(),
              16);
    double bytes = 0;
    for (const char* part :
         {"parameters", "gradients", "optimizer", "activations", "transient", "overhead"}) {
      bytes += layout["memory"][part].get<double>();
    }
    EXPECT_NEAR(bytes, layout["memory"]["total"].get<double>(), 1);
  }
  EXPECT_THAT(plan["export"]["11_five_d"].get<std::string>(), HasSubstr("--dp"));
}

TEST(PlanOptions, OptionsOfAnotherThanTheFastest) {
  const auto plan = [](const char* exported) {
    return json::parse(
        answer({"--plan", "--plan-json", "--plan-gpus", "16", "--plan-export", exported}));
  };
  const json third = plan("3");
  const auto words = [](std::string flags) {
    std::erase_if(flags, [](char c) { return c == '\\' || c == '\n'; });
    return flags;
  };
  EXPECT_EQ(words(third["export"]["11_five_d"]), words(third["layouts"][2]["flags"]));
  EXPECT_EQ(words(plan("1")["export"]["11_five_d"]), words(third["layouts"][0]["flags"]));
  refuses({"--plan", "--plan-gpus", "16", "--plan-export", "11"},
          {"--plan-export 11", "the plan has 10 layouts", "--plan-count"});
}

TEST(PlanOptions, WhatAScriptAsserts) {
  const auto asserts = [](const std::string& text, const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--plan", "--plan-gpus", "64", "--plan-assert", text};
    flags.insert(flags.end(), more.begin(), more.end());
    return answer(flags);
  };
  const json plan = json::parse(answer({"--plan", "--plan-json", "--plan-gpus", "64"}));
  const double seconds = plan["layouts"][0]["step_seconds"];
  EXPECT_THAT(asserts(fmt::format("seconds<{},mfu>30,memory_gb<=90", seconds * 1.01)),
              HasSubstr("11_five_d:"));
  EXPECT_NO_THROW((void)asserts("gpu_hours>1,dollars>=2,days>0.01",
                                {"--plan-tokens", "1e12", "--plan-price", "2"}));
  for (const std::string& text :
       {fmt::format("seconds<{}", seconds * 0.99), fmt::format("seconds>={}", seconds * 1.01),
        std::string("mfu>=99"), std::string("mfu>30,tokens_per_second<1")}) {
    test::expect_message<NotAsAsserted>([&] { (void)asserts(text); },
                                        {"--plan-assert", "for the fastest"});
  }
  test::expect_message<ConfigError>([&] { (void)asserts("days<3"); },
                                    {"'days' is not known", "--plan-tokens"});
  for (const char* text : {"seconds", "seconds=14", "seconds<fast", "<14,"}) {
    test::expect_message<ConfigError>([&] { (void)asserts(text); }, {"--plan-assert"});
  }
  const auto nothing_fits = [&] {
    (void)answer({"--plan", "--plan-model", "llama-405b", "--plan-gpus", "1", "--plan-assert",
                  "seconds<14"});
  };
  test::expect_message<NotAsAsserted>(nothing_fits, {"no layout fits"});
}

TEST(PlanOptions, AsManyLayoutsAsAreAskedFor) {
  const auto layouts = [](const char* count) {
    return json::parse(
        answer({"--plan", "--plan-json", "--plan-gpus", "16", "--plan-count", count}))["layouts"];
  };
  const json most = layouts("40");
  ASSERT_EQ(most.size(), 40U);
  const json three = layouts("3");
  ASSERT_EQ(three.size(), 3U);
  for (std::size_t i = 0; i < three.size(); ++i) {
    EXPECT_EQ(three[i]["layout"], most[i]["layout"]);
    EXPECT_EQ(three[i]["step_seconds"], most[i]["step_seconds"]);
  }
}

TEST(PlanOptions, TheTableAsJson) {
  EXPECT_GT(json::parse(answer({"--plan-published", "--plan-json"}))["rows"].size(), 60U);
}

TEST(PlanOptions, ScalingAsJson) {
  const json scaling =
      json::parse(answer({"--plan-scaling", "--plan-gpus", "1024", "--plan-batch", "8388608"}));
  EXPECT_EQ(scaling["strong"].size(), 3U);
  EXPECT_EQ(scaling["weak"].back()["gpus"], 4096);
  EXPECT_FALSE(scaling["heat_map"]["cells"].empty());
}

TEST(PlanOptions, FlagsNeedTheirQuestion) {
  refuses({"--plan-gpus", "8"}, {"--plan-gpus needs --plan"});
  refuses({"--plan-model", "llama-70b"}, {"--plan-model needs --plan"});
  refuses({"--plan-count", "3"}, {"--plan-count needs --plan"});
}

TEST(PlanOptions, BadValues) {
  refuses({"--plan", "--plan-model", "hugo"}, {"'hugo'", "llama-8b", "config.json"});
  refuses({"--plan", "--plan-cluster", "moon"}, {"'moon'", "dgx-h100"});
  refuses({"--plan", "--plan-software", "vim"}, {"'vim'", "modern"});
  refuses({"--plan", "--plan-precision", "fp3"}, {"fp3"});
  refuses({"--plan", "--plan-optimizer", "lion"}, {"--plan-optimizer is 'lion'", "muon"});
  refuses({"--plan", "--plan-optimizer", "muon", "--plan-model", "deepseek-v3"},
          {"no plan knows which matrices", "deepseek-v3"});
  refuses({"--plan", "--plan-batch", "4097"}, {"4097", "multiple of --plan-seq 4096", "8192"});
  refuses({"--plan", "--plan-batch", "100"}, {"100", "multiple of --plan-seq 4096", "4096"});
  refuses({"--plan", "--plan-gpus", "0"}, {"--plan-gpus"});
  refuses({"--plan", "--plan-count", "0"}, {"--plan-count"});
  refuses({"--plan", "--plan-count", "10001"}, {"--plan-count"});
  test::expect_message<FileError>(
      [] {
        (void)answer({"--plan", "--plan-cluster", "none.json"});
      },
      {"none.json", "cannot be read"});
}

TEST(PlanOptions, WhatTheProgramHasNot) {
  refuses({"--plan", "--plan-software", "nanotron", "--plan-hybrid-shard", "8"},
          {"nanotron has no hybrid sharding", "another --plan-software"});
  refuses({"--plan", "--plan-software", "workbook", "--plan-outermost", "pp"},
          {"--plan-outermost pp", "workbook has no such order"});
}

TEST(PlanOptions, NothingFitsOrNothingDivides) {
  refuses({"--plan", "--plan-model", "llama-405b", "--plan-gpus", "8"},
          {"none of", "fits into 8 GPUs", "needs", "most of it for"});
  refuses({"--plan", "--plan-gpus", "97", "--plan-batch", "4096"},
          {"no layout of llama-8b on 97 GPUs can run", "--plan-gpus or --plan-batch"});
}

}  // namespace
}  // namespace ultra::planner
