#include "chapters/11_five_d/planner/report/plan_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "chapters/11_five_d/planner/export/exported_options.hpp"
#include "chapters/11_five_d/planner/fit.hpp"
#include "common/base/errors.hpp"
#include "common/base/units.hpp"

namespace ultra::planner {
namespace {

void expect_found(const Question& question, const SearchSpace& space, const SearchResult& result) {
  if (!result.best.empty()) return;
  const memory::TransformerShape& s = question.work.model.shape();
  const std::string only = space.only.str();
  if (result.possible == 0) {
    throw ConfigError(
        fmt::format("--plan: no layout of {} on {} GPUs can run: the batch of {} sequences, heads "
                    "{} and blocks "
                    "{} do not divide by any{}. Choose another --plan-gpus or --plan-batch.",
                    s.name, space.gpus, question.work.global_batch, s.num_heads, s.num_layers,
                    only.empty() ? "" : fmt::format(", of those that are asked about ({})", only)));
  }
  const Layout& nearest = result.nearly.front();
  throw ConfigError(
      fmt::format("--plan: none of {} layouts of {} fits into {} GPUs ({}). The nearest, {}, {}",
                  result.possible, s.name, space.gpus, question.cluster.name, nearest.str(),
                  describe(fit(question, nearest), question)));
}

const Prediction& exported_of(const SearchResult& result, std::size_t exported) {
  if (exported <= result.best.size()) return result.best[exported - 1];
  throw ConfigError(
      fmt::format("--plan-export {}: the plan has {} layouts. Ask for one of them, or for more by "
                  "--plan-count.",
                  exported, result.best.size()));
}

std::string heading(const Question& question, const SearchSpace& space) {
  const std::vector<std::string>& frozen = question.work.model.frozen.patterns;
  const std::string only = space.only.str();
  return fmt::format(
      "{} ({} parameters) on {} x {} ({}), {} sequences of {} tokens a step, as {} trains{}{}{}\n",
      question.work.model.shape().name,
      format_count(static_cast<std::uint64_t>(parameters_of(question.work.model))), space.gpus,
      question.cluster.gpu.name, question.cluster.name, question.work.global_batch,
      question.work.seq_len, question.software.name,
      question.work.optimizer == optim::kDefaultRule ? "" : " with " + question.work.optimizer,
      frozen.empty() ? "" : fmt::format(" all but {}", fmt::join(frozen, ",")),
      only.empty() ? "" : "; only " + only);
}

/// Which order of ranks is meant, where both are searched.
std::string order_words(const SearchSpace& space, const Layout& layout) {
  if (space.orders.size() == 1 || layout.pp == 1 || layout.dp == 1) return "";
  return layout.outermost == Outermost::kData ? ", replicas outermost" : ", stages outermost";
}

std::string table_of(const SearchSpace& space, const SearchResult& result) {
  std::string text = fmt::format("  {:>2}  {:>9}  {:>6}  {:>9}  {:<34}{}\n", "", "step", "MFU",
                                 "memory", "largest loss", "layout");
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    const Prediction& p = result.best[i];
    const TimeShare loss = bottleneck(p);
    text += fmt::format(
        "  {:>2}  {:>9}  {:>4.1f} %  {:>9}  {:<34}{}\n", i + 1, format_seconds(p.step.total()),
        kPercent * p.mfu, format_bytes(static_cast<std::uint64_t>(p.memory.total())),
        fmt::format("{} {:.0f} %", loss.what, kPercent * loss.seconds / p.step.total()),
        p.layout.str() + order_words(space, p.layout));
  }
  return text;
}

std::string in_one_line(const std::vector<std::string>& options) {
  return fmt::format("{}\n", fmt::join(options, " "));
}

/// What fills a GPU, and the flags, of each.
std::string details_of(const Workload& work, const SearchResult& result) {
  std::string text = fmt::format(
      "  Half of the predictions for programs that others measured are off by up to {:.0f} %: {} "
      "layouts are within that\n  of the first. Try several.\n\n  GB of a GPU:\n  {:>2}  {:>10}  "
      "{:>9}  {:>9}  {:>11}  {:>14}  {:>8}\n",
      kPercent * kTypicalError, result.near, "", "parameters", "gradients", "optimizer",
      "activations", "comes and goes", "no tensor");
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    const StageMemory& m = result.best[i].memory;
    text += fmt::format("  {:>2}  {:>10.1f}  {:>9.1f}  {:>9.1f}  {:>11.1f}  {:>14.1f}  {:>8.1f}\n",
                        i + 1, m.parameters / kGB, m.gradients / kGB, m.optimizer / kGB,
                        m.activations / kGB, m.transient / kGB, m.overhead / kGB);
  }
  text += "\n  With this program:\n";
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    text +=
        fmt::format("  {:>2}  {}", i + 1, in_one_line(book_options(work, result.best[i].layout)));
  }
  return text;
}

std::string reasons_of(const Question& question, const SearchSpace& space,
                       const SearchResult& result) {
  const Prediction& first = result.best.front();
  const DecisionSteps steps = decision_steps(question, result);
  std::string text = fmt::format("  1. Fit in memory. {}\n  2. Reach the batch. {}\n",  //
                                 steps.fit_in_memory, steps.reach_the_batch);
  text += fmt::format("  3. Make it fast. {}\n\n  Where the time of the first goes:\n",
                      steps.make_it_fast);
  for (const TimeShare& share : time_shares(first)) {
    if (share.seconds < 0.001 * first.step.total()) continue;
    text += fmt::format("    {:>5.1f} %  {}\n", kPercent * share.seconds / first.step.total(),
                        share.what);
  }
  text += "  What the same layout would gain by, and a new plan:\n";
  for (const WhatIf& one : what_ifs(question, space, first)) {
    text += fmt::format("    {:>+5.1f} %  {:>+6.1f} %  {}{}\n", kPercent * one.gain,
                        kPercent * one.gain_planned_anew, one.change,
                        one.layout.empty() ? "" : ": " + one.layout);
  }
  text += "  Rules of thumb:\n";
  for (const Recipe& recipe : recipes(question, first.layout)) {
    text += fmt::format("    {:<11}  {}: {}\n", recipe.followed ? "followed" : "not followed",
                        recipe.source, recipe.advice);
  }
  return text;
}

std::string indented(const std::string& text) {
  std::string result = "    ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "    ";
  }
  return result.substr(0, result.find_last_not_of(' ') + 1);
}

std::string exports_of(const Workload& work, const Layout& layout) {
  return fmt::format(
      "  11_five_d:\n{}  Megatron-LM:\n{}  nanotron:\n{}  DeepSpeed:\n{}  torchtitan:\n{}",
      indented(book_flags(work, layout)), indented(megatron_options(work, layout)),
      indented(nanotron_config(work, layout)), indented(deepspeed_config(work, layout)),
      indented(torchtitan_config(work, layout)));
}

Json memory_to_json(const StageMemory& memory) {
  return {{"parameters", memory.parameters}, {"gradients", memory.gradients},
          {"optimizer", memory.optimizer},   {"activations", memory.activations},
          {"transient", memory.transient},   {"overhead", memory.overhead},
          {"total", memory.total()}};
}

}  // namespace

std::string format_plan(const Question& question, const SearchSpace& space,
                        const SearchResult& result, std::size_t exported) {
  expect_found(question, space, result);
  return fmt::format("{}\n{}\n{}\n{}\n{}", heading(question, space), table_of(space, result),
                     details_of(question.work, result), reasons_of(question, space, result),
                     exports_of(question.work, exported_of(result, exported).layout));
}

Json prediction_to_json(const Prediction& prediction) {
  const Layout& l = prediction.layout;
  Json time = Json::object();
  for (const TimeShare& share : time_shares(prediction)) {
    time[std::string(share.what)] = share.seconds;
  }
  return {{"layout", l.str()},
          {"dp", l.dp},
          {"pp", l.pp},
          {"cp", l.cp},
          {"tp", l.tp},
          {"ep", l.ep},
          {"zero", zero::number_of(l.zero)},
          {"hybrid_shard", l.copies > 1 ? l.shard_ranks() : 0},
          {"outermost", l.outermost == Outermost::kData ? "dp" : "pp"},
          {"schedule", l.schedule.str()},
          {"micro_batch", l.micro_batch},
          {"micro_batches", prediction.micro_batches},
          {"recompute", memory::to_string(l.recompute)},
          {"sequence_parallel", l.sequence_parallel},
          {"cp_method", name_of(l.context_method)},
          {"offload", l.offload},
          {"offload_activations", l.offload_activations},
          {"step_seconds", prediction.step.total()},
          {"tokens_per_second", prediction.tokens_per_second},
          {"tflops_per_gpu", prediction.flops_per_gpu / 1e12},
          {"mfu", prediction.mfu},
          {"memory_gb", prediction.memory.total() / kGB},
          {"memory", memory_to_json(prediction.memory)},
          {"bottleneck", bottleneck(prediction).what},
          {"time", time}};
}

Json plan_to_json(const Question& question, const SearchSpace& space, const SearchResult& result,
                  std::size_t exported) {
  expect_found(question, space, result);
  const Layout& first = result.best.front().layout;
  const Layout& chosen = exported_of(result, exported).layout;
  Json layouts = Json::array();
  for (const Prediction& p : result.best) {
    Json one = prediction_to_json(p);
    one["flags"] = in_one_line(book_options(question.work, p.layout));
    layouts.push_back(std::move(one));
  }
  Json changes = Json::array();
  for (const WhatIf& one : what_ifs(question, space, result.best.front())) {
    changes.push_back({{"change", one.change},
                       {"gain", one.gain},
                       {"planned_anew", one.gain_planned_anew},
                       {"layout", one.layout}});
  }
  Json rules = Json::array();
  for (const Recipe& one : recipes(question, first)) {
    rules.push_back({{"source", one.source}, {"advice", one.advice}, {"followed", one.followed}});
  }
  const DecisionSteps steps = decision_steps(question, result);
  return {{"model", question.work.model.shape().name},
          {"parameters", parameters_of(question.work.model)},
          {"cluster", question.cluster.name},
          {"gpus", space.gpus},
          {"software", question.software.name},
          {"seq", question.work.seq_len},
          {"batch_tokens", question.work.tokens()},
          {"possible", result.possible},
          {"too_large", result.too_large},
          {"near", result.near},
          {"layouts", layouts},
          {"steps",
           {{"fit_in_memory", steps.fit_in_memory},
            {"reach_the_batch", steps.reach_the_batch},
            {"make_it_fast", steps.make_it_fast}}},
          {"recipes", rules},
          {"what_if", changes},
          {"export",
           {{"11_five_d", book_flags(question.work, chosen)},
            {"megatron", megatron_options(question.work, chosen)},
            {"nanotron", nanotron_config(question.work, chosen)},
            {"deepspeed", Json::parse(deepspeed_config(question.work, chosen))},
            {"torchtitan", torchtitan_config(question.work, chosen)}}}};
}

}  // namespace ultra::planner
