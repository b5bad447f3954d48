// The flags of a Restriction: those of a training, which mean something else beside --plan.
#include "chapters/11_five_d/planner/search/restriction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::planner {
namespace {

using context_parallel::ContextMethod;
using pipeline_parallel::ScheduleChoice;
using train::Choice;
using zero::ZeroStage;

constexpr std::string_view kOffload = "offload";
constexpr std::string_view kHybrid = "hybrid";

/// Flags of a training that ask a plan about something, and what they are called there.
constexpr std::array kOfTraining = {"model",       "seq",       "dp",        "pp",
                                    "cp",          "tp",        "ep",        "zero",
                                    "micro-batch", "recompute", "sp",        "hybrid-shard",
                                    "schedule",    "cp-method", "optimizer", "freeze"};

const std::vector<Choice<ZeroStage>> kStages = {{"0", ZeroStage::kNone},
                                                {"1", ZeroStage::kOptimizer},
                                                {"2", ZeroStage::kGradients},
                                                {"3", ZeroStage::kParameters}};
const std::vector<Choice<ContextMethod>> kMethods = {{"all-gather", ContextMethod::kAllGather},
                                                     {"ring", ContextMethod::kRing},
                                                     {"ulysses", ContextMethod::kUlysses}};
const std::vector<Choice<Outermost>> kOrders = {{"dp", Outermost::kData},
                                                {"pp", Outermost::kPipeline}};
const std::vector<Choice<bool>> kSwitch = {{"on", true}, {"off", false}};

std::size_t count_of(std::string_view flag, std::string_view word) {
  const auto count = parse_number<std::uint64_t>(std::string(word));
  if (count && *count > 0) return *count;
  throw ConfigError(
      fmt::format("{} is {}. Beside --plan it takes numbers of at least 1, with commas between "
                  "them.",
                  flag, in_quotes(std::string(word))));
}

AskedSchedule schedule_of(std::string_view word) {
  const ScheduleChoice choice = pipeline_parallel::parse_schedule_choice(word);
  const bool any = choice.takes_chunks() && word.find(':') == std::string_view::npos;
  if (any || !choice.takes_chunks()) return {.kind = choice.kind};
  return {.kind = choice.kind, .chunks = choice.chunks()};
}

}  // namespace

void Restriction::add_to(CLI::App& app) {
  const auto add_list = [&](const std::string& name,
                            const std::function<void(const std::string&, std::string_view)>& take) {
    const std::string flag = "--plan-" + name;
    train::Flags(app, "").add_parsed(
        flag.c_str(),
        [this, name, take](const std::string& text) {
          words_.push_back(fmt::format("{} {}", name, text));
          for (const std::string_view word : split(text, ',')) take("--" + name, word);
        },
        "");
  };
  for (const auto& [name, list] : {std::pair{"dp", &dp},
                                   {"pp", &pp},
                                   {"cp", &cp},
                                   {"tp", &tp},
                                   {"ep", &ep},
                                   {"micro-batch", &micro_batch},
                                   {"hybrid-shard", &hybrid_shard}}) {
    add_list(name, [list = list](const std::string& flag, std::string_view word) {
      list->push_back(count_of(flag, word));
    });
  }
  add_list("zero", [this](const std::string& flag, std::string_view word) {
    zero.push_back(train::parse_choice(flag, word, kStages));
  });
  add_list("schedule", [this](const std::string&, std::string_view word) {
    schedules.push_back(schedule_of(word));
  });
  add_list("recompute", [this](const std::string&, std::string_view word) {
    recompute.push_back(memory::parse_recompute(std::string(word)));
  });
  add_list("cp-method", [this](const std::string& flag, std::string_view word) {
    methods.push_back(train::parse_choice(flag, word, kMethods));
  });
  add_list("sp", [this](const std::string& flag, std::string_view word) {
    sequence_parallel.push_back(train::parse_choice(flag, word, kSwitch));
  });
  const train::Flags flags(app, "Plan");
  flags.add_parsed(
      "--plan-outermost",
      [this](const std::string& text) {
        words_.push_back("outermost " + text);
        for (const std::string_view word : split(text, ',')) {
          outermost.push_back(train::parse_choice("--plan-outermost", word, kOrders));
        }
      },
      "which axis changes slowest from rank to rank: dp (replicas), pp (stages), or dp,pp for the "
      "faster one; without it, the program's own order");
  flags.add_parsed(
      "--plan-without",
      [this](const std::string& text) {
        words_.push_back("without " + text);
        for (const std::string_view word : split(text, ',')) {
          if (word == kOffload) {
            without_offload = true;
          } else if (word == kHybrid) {
            without_hybrid = true;
          } else if (word.starts_with("zero-")) {
            without_zero.push_back(
                train::parse_choice("--plan-without zero-N", word.substr(5), kStages));
          } else {
            without_schedules.push_back(schedule_of(word));
          }
        }
      },
      "what the plan leaves out, with commas between: schedules, zero-1 to zero-3, offload, "
      "hybrid. "
      "And "
      "beside --plan the flags of a layout (--dp, --pp, --cp, --tp, --ep, --zero, --hybrid-shard, "
      "--schedule, --micro-batch, --recompute, --cp-method, --sp) fix what is searched; they take "
      "lists");
}

std::vector<std::string> words_of_plan(std::vector<std::string> words) {
  const bool plans = std::ranges::any_of(words, [](const std::string& word) {
    return train::is_flag(word, "--plan") || train::is_flag(word, "--plan-scaling");
  });
  if (!plans) return words;
  for (std::string& word : words) {
    for (const char* name : kOfTraining) {
      if (!train::is_flag(word, fmt::format("--{}", name))) continue;
      word.insert(2, "plan-");
      break;
    }
  }
  return words;
}

}  // namespace ultra::planner
