#include "chapters/11_five_d/planner/options/plan_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chapters/01_memory/model_presets.hpp"
#include "chapters/11_five_d/planner/check/plan_check.hpp"
#include "chapters/11_five_d/planner/model/model_file.hpp"
#include "chapters/11_five_d/planner/published/exam.hpp"
#include "chapters/11_five_d/planner/published/published_choices.hpp"
#include "chapters/11_five_d/planner/published/published_table.hpp"
#include "chapters/11_five_d/planner/report/plan_report.hpp"
#include "chapters/11_five_d/planner/scaling/scaling_curves.hpp"
#include "chapters/11_five_d/planner/search/layout_search.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/base/text.hpp"
#include "common/replay/cluster/cluster_file.hpp"
#include "common/train/options/question_flags.hpp"

namespace ultra::planner {
namespace {

using Values = std::vector<std::pair<std::string_view, double>>;

/// A training whose cost may be asserted.
struct AssertedTraining {
  double tokens = 0;  ///< of all steps; 0: nothing can be said of it
  double price = 0;   ///< dollars for an hour of a GPU; 0: unknown
};

Values values_of(const Question& question, const Prediction& first,
                 const AssertedTraining& training) {
  Values values = {{"seconds", first.step.total()},
                   {"mfu", 100 * first.mfu},
                   {"memory_gb", first.memory.total() / 1e9},
                   {"tokens_per_second", first.tokens_per_second}};
  if (training.tokens == 0) return values;
  const TrainingCost cost = training_cost(question, first, training.tokens, training.price);
  values.emplace_back("days", cost.real_days);
  values.emplace_back("gpu_hours", cost.gpu_hours);
  if (training.price > 0) values.emplace_back("dollars", cost.dollars);
  return values;
}

bool holds(double value, std::string_view comparison, double limit) {
  if (comparison == "<") return value < limit;
  if (comparison == "<=") return value <= limit;
  if (comparison == ">") return value > limit;
  return value >= limit;
}

struct Comparison {
  std::string_view name;
  std::string_view how;
  double limit = 0;
};

/// "seconds<14" in its three parts.
Comparison comparison_of(std::string_view text) {
  const std::size_t at = text.find_first_of("<>");
  if (at != std::string_view::npos) {
    const std::size_t width = text.substr(at + 1).starts_with('=') ? 2 : 1;
    const auto limit = parse_number<double>(std::string(text.substr(at + width)));
    if (limit) return {text.substr(0, at), text.substr(at, width), *limit};
  }
  throw ConfigError(
      fmt::format("--plan-assert: {} is no comparison with a number. Write for example seconds<14.",
                  in_quotes(std::string(text))));
}

/// Checks the fastest layout of a plan.
/// @param text  comparisons with commas between them: "seconds<14,memory_gb<=75"; empty: none.
/// @throws ConfigError for what is no comparison, or of something that is not known.
/// @throws NotAsAsserted when one is false, or no layout fits.
void expect_as_asserted(const std::string& text, const Question& question,
                        const SearchResult& result, const AssertedTraining& training) {
  if (text.empty()) return;
  std::vector<Comparison> all;
  for (const std::string_view one : split(text, ',')) all.push_back(comparison_of(one));
  if (result.best.empty()) throw NotAsAsserted("--plan-assert: no layout fits");
  const Prediction& first = result.best.front();
  const Values values = values_of(question, first, training);
  for (const Comparison& one : all) {
    const auto value = std::ranges::find(values, one.name, &Values::value_type::first);
    if (value == values.end()) {
      std::vector<std::string_view> names;
      for (const auto& [name, number] : values) names.push_back(name);
      throw ConfigError(fmt::format(
          "--plan-assert: {} is not known of a plan. Known are {}; with --plan-tokens days and "
          "gpu_hours, with --plan-price dollars too.",
          in_quotes(std::string(one.name)), fmt::join(names, ", ")));
    }
    if (holds(value->second, one.how, one.limit)) continue;
    throw NotAsAsserted(fmt::format("--plan-assert {}{}{:g}: it is {:.4g} for the fastest, {}",
                                    one.name, one.how, one.limit, value->second,
                                    first.layout.str()));
  }
}

constexpr const char* kPlan = "--plan";
constexpr const char* kScaling = "--plan-scaling";
constexpr const char* kPublished = "--plan-published";
constexpr const char* kExam = "--plan-exam";
constexpr std::size_t kMostGpus = 1U << 17U;
constexpr std::size_t kMostBatch = 1ULL << 36U;
constexpr std::size_t kMostSeq = 1U << 24U;
constexpr std::size_t kMostLayouts = 10'000;
constexpr std::size_t kMostChecked = 100;
constexpr double kMostHeadroom = 0.9;
constexpr double kMostTokens = 1e18;
constexpr double kMostPrice = 1e6;

/// Calls visit with each flag, see train::add_flags().
constexpr auto kEachFlag = [](const auto& visit) {
  using Options = PlanOptions;
  visit("--plan-json", &Options::json, "print the plan, or the table, as JSON");
  visit("--plan-model", &Options::model,
        "what is trained: a model's name, a config.json, or custom: --layers, --hidden, ...");
  visit("--plan-cluster", &Options::cluster,
        "on what: a cluster's name, or a file that ends in .json, as --profile-machine writes it");
  visit("--plan-software", &Options::software,
        "by which program: what it hides and fuses; modern hides what can be hidden");
  visit("--plan-precision", &Options::precision,
        "in which formats: fp32, bf16-mixed, bf16-mixed-fp32grads or fp64");
  visit("--plan-optimizer", &Options::optimizer,
        "by which rule: adamw, sgd, or muon, which wants matrices whole");
  visit("--plan-freeze", &Options::freeze,
        "parameters that are not trained, by parts of their names: model.layers.0. or "
        "embed_tokens");
  visit("--plan-gpus", &Options::gpus, "on how many GPUs", train::Counts{1, kMostGpus});
  visit("--plan-batch", &Options::batch_tokens, "tokens of a step", train::Counts{1, kMostBatch});
  visit("--plan-seq", &Options::seq_len, "tokens of a sequence", train::Counts{1, kMostSeq});
  visit("--plan-count", &Options::count, "how many of the best layouts the plan names",
        train::Counts{1, kMostLayouts});
  visit("--plan-export", &Options::exported,
        "for which of them options of other programs are printed: 1 is the fastest",
        train::Counts{1, kMostLayouts});
  visit("--plan-assert", &Options::asserted,
        "what must be true of the fastest, or the exit code is 4: seconds<14,memory_gb<75. Others: "
        "mfu (percent), tokens_per_second; with --plan-tokens days, gpu_hours, dollars");
  visit("--plan-check", &Options::check,
        "how many of them are also recorded, as --on does: a step of this program with the same "
        "flags",
        train::Counts{0, kMostChecked});
  visit("--plan-headroom", &Options::headroom,
        "the part of a GPU's memory that a layout leaves free: predicted memory may be too low",
        train::Numbers{0, kMostHeadroom});
  visit("--plan-tokens", &Options::tokens,
        "what a training of so many tokens takes, as 1e12: days and GPU hours, with failures",
        train::Numbers{0, kMostTokens});
  visit("--plan-price", &Options::price, "dollars for an hour of a GPU: what that costs",
        train::Numbers{0, kMostPrice});
};

/// 1, 2, 4, ... times the first number of GPUs, up to 4,096 or the flag's.
std::vector<std::size_t> doubled(std::size_t gpus) {
  constexpr std::size_t kMost = 4096;
  std::vector<std::size_t> all = {gpus};
  while (all.back() * 2 <= kMost) all.push_back(all.back() * 2);
  return all;
}

std::string scaling_answer(const Question& question, const SearchSpace& space) {
  const std::vector<std::size_t> gpus = doubled(space.gpus);
  const auto curve = [&](ScalingKind kind) {
    return curve_to_json(scaling_curve(question, space, kind, gpus));
  };
  const Json answer = {{"model", question.work.model.shape().name},
                       {"cluster", question.cluster.name},
                       {"strong", curve(ScalingKind::kStrong)},
                       {"weak", curve(ScalingKind::kWeak)},
                       {"heat_map", heat_map(question, space)}};
  return answer.dump(2) + "\n";
}

std::string published_answer(bool json) {
  const std::string path = published_rows_path();
  const std::vector<ComparedRow> rows = compare_all(path);
  const std::vector<MeasuredChoice> measured = measured_choices(path, rows);
  const std::vector<OwnChoice> own = own_choices(rows, kPlaybookGroup);
  if (!json) return published_to_markdown(rows) + choices_to_markdown(measured, own);
  Json answer = published_to_json(rows);
  answer.update(choices_to_json(measured, own));
  return answer.dump(2) + "\n";
}

std::string exam_answer(bool json) {
  const std::vector<ExamTable> exam = take_exam(exam_path());
  return json ? exam_to_json(exam).dump(2) + "\n" : exam_to_markdown(exam);
}

/// The planner's flags; see PlanOptions.
class Planning : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override { options_.add_to(app); }
  [[nodiscard]] std::vector<std::string> rewrite(std::vector<std::string> words) const override {
    return words_of_plan(std::move(words));
  }
  void validate(train::Setup&) override { options_.validate(); }
  [[nodiscard]] std::vector<train::Question> questions() const override {
    std::vector<train::Question> all;
    if (options_.plan) all.push_back({kPlan, train::Instead::kAnswer});
    if (options_.scaling) all.push_back({kScaling, train::Instead::kAnswer});
    if (options_.published) all.push_back({kPublished, train::Instead::kAnswer});
    if (options_.exam) all.push_back({kExam, train::Instead::kAnswer});
    return all;
  }
  [[nodiscard]] std::optional<std::string> answer(const train::Setup& setup) const override {
    if (*options_.asked() == '\0') return {};
    return options_.answer(setup.train.model);
  }

 private:
  PlanOptions options_;
};

}  // namespace

void PlanOptions::add_to(CLI::App& app) {
  const char* group = "Plan";
  const train::Flags flags(app, group);
  flags.add_switch(
      kPlan, plan,
      "say which layout of a model on a cluster is best, and why, instead of training");
  flags.add_switch(kScaling, scaling,
                   "say how far the best layouts scale, and how fast all are, as JSON, instead of "
                   "training");
  flags.add_switch(kPublished, published,
                   "compare the planner with steps that others measured, instead of training");
  flags.add_switch(kExam, exam,
                   "compare it with steps that it had not seen when they were entered, instead of "
                   "training");
  train::Flags(app, "").add_switch("--plan-techniques", techniques, "");
  train::add_flags(app, group, *this, kEachFlag);
  only.add_to(app);
}

void PlanOptions::validate() const {
  if (techniques) {
    throw ConfigError(
        "--plan-techniques is no longer there: --on says what a technique keeps, sends and hides. "
        "Write for example --model llama-8b --dp 8 --zero 0,1,2,3 --on dgx-h100.");
  }
  if (price > 0 && tokens == 0) {
    throw ConfigError("--plan-price has no meaning without --plan-tokens: how long? Give both.");
  }
  if (*asked() != '\0') return;
  if (!only.str().empty()) {
    throw ConfigError(
        "--plan-without has no meaning without --plan or --plan-scaling. Give one, or leave it "
        "out.");
  }
  train::expect_defaults(*this, kEachFlag,
                         "--plan, --plan-scaling, --plan-published or --plan-exam");
}

const char* PlanOptions::asked() const {
  if (plan) return kPlan;
  if (scaling) return kScaling;
  if (exam) return kExam;
  return published ? kPublished : "";
}

Question PlanOptions::question(const nn::ModelConfig& custom) const {
  Question question{.work = {.model = model_for_plan(model, custom), .seq_len = seq_len},
                    .cluster = replay::cluster_by_name(cluster, "--plan-cluster"),
                    .software = find_software(software)};
  question.cluster.gpu.memory_bytes *= 1 - headroom;
  const std::vector<std::string> rules = optim::rule_names();
  if (std::ranges::find(rules, optimizer) == rules.end()) {
    throw ConfigError(fmt::format("--plan-optimizer is {}. Choose {}.", in_quotes(optimizer),
                                  fmt::join(rules, ", ")));
  }
  question.work.optimizer = optimizer;
  question.work.model.frozen = frozen_weights(question.work.model, freeze);
  if (optim::needs_whole_matrices(optimizer) && question.work.model.layers.attention_parameters) {
    throw ConfigError(
        fmt::format("--plan-optimizer {}: of {} no plan knows which matrices its attention has. "
                    "Choose adamw, or "
                    "another model.",
                    optimizer, question.work.model.shape().name));
  }
  if (batch_tokens % seq_len != 0) {
    throw ConfigError(
        fmt::format("--plan-batch {} tokens must be a multiple of --plan-seq {}: for example {}.",
                    batch_tokens, seq_len, (batch_tokens / seq_len + 1) * seq_len));
  }
  question.work.global_batch = batch_tokens / seq_len;
  return question;
}

SearchSpace PlanOptions::space(const Question& asked_question) const {
  const Software& program = asked_question.software;
  for (const Outermost order : only.outermost) {
    if (allows(program.orders, order)) continue;
    throw ConfigError(
        fmt::format("--plan-outermost {}: {} has no such order of ranks. Leave it out, or choose "
                    "another --plan-software.",
                    order == Outermost::kData ? "dp" : "pp", program.name));
  }
  if (!only.hybrid_shard.empty() && !program.shards_in_groups) {
    throw ConfigError(
        fmt::format("--hybrid-shard: {} has no hybrid sharding. Leave it out, or choose another "
                    "--plan-software.",
                    program.name));
  }
  return {.gpus = gpus,
          .precision = memory::parse_precision(precision),
          .orders = only.outermost.empty() ? std::vector{program.orders.front()} : only.outermost,
          .node = static_cast<std::size_t>(asked_question.cluster.gpus_per_node),
          .hybrid = program.shards_in_groups && !only.without_hybrid,
          .only = only};
}

std::string PlanOptions::answer(const nn::ModelConfig& custom) const {
  if (published) return published_answer(json);
  if (exam) return exam_answer(json);
  const Question asked_question = question(custom);
  if (scaling) return scaling_answer(asked_question, space(asked_question));
  const SearchSpace searched = space(asked_question);
  const SearchResult result = search_layouts(asked_question, searched, count);
  expect_as_asserted(asserted, asked_question, result, {.tokens = tokens, .price = price});
  const auto checked = check_plan(asked_question, result.best, check, cluster);
  if (json) {
    Json answer = plan_to_json(asked_question, searched, result, exported);
    if (check > 0) answer["checked"] = check_to_json(checked);
    if (tokens > 0) answer["costs"] = costs_to_json(asked_question, result.best, tokens, price);
    return answer.dump(2) + "\n";
  }
  std::string text = format_plan(asked_question, searched, result, exported);
  if (tokens > 0) text += costs_to_text(asked_question, result.best, tokens, price);
  return text + (check > 0 ? check_to_text(checked) : "");
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<Planning>(); }

}  // namespace ultra::planner
