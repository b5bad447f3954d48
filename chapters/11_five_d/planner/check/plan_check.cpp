#include "chapters/11_five_d/planner/check/plan_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "chapters/01_memory/model_presets.hpp"
#include "chapters/11_five_d/five_d.hpp"
#include "chapters/11_five_d/planner/export/exported_options.hpp"
#include "common/base/errors.hpp"
#include "common/base/units.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "common/train/elsewhere/on_report.hpp"

namespace ultra::planner {
namespace {

using memory::NumberFormats;

/// The flags that describe a model to this program.
std::vector<std::string> model_flags(const ModelShape& model) {
  const expert_parallel::MoeConfig& moe = model.layers.moe;
  const bool other_experts = model.has_experts() && model.layers.dense_blocks > 0;
  if (model.shape().kind == memory::BlockKind::kGpt || model.layers.attention_parameters ||
      other_experts) {
    throw ConfigError(fmt::format(
        "--plan-check records a step of this program, which has no blocks like those of {}. Leave "
        "--plan-check out, or plan for a Llama or a Mixtral.",
        model.shape().name));
  }
  train::NamedModel named = train::in_flags({model.shape().name, memory::config_of(model.shape())});
  if (model.has_experts()) {
    named.flags.emplace_back("--experts", fmt::to_string(moe.num_experts));
    named.flags.emplace_back("--top-k", fmt::to_string(moe.top_k));
    named.flags.emplace_back("--expert-ffn", fmt::to_string(moe.expert_ffn));
    named.flags.emplace_back("--shared-experts", fmt::to_string(moe.shared_experts));
  }
  std::vector<std::string> words;
  for (const auto& [flag, value] : named.flags) {
    words.push_back(flag);
    if (!value.empty()) words.push_back(value);
  }
  return words;
}

/// Flags of the types; a record takes bf16 with gradients in f32 unless they say otherwise.
std::string precision_flags(NumberFormats precision) {
  switch (precision) {
    case NumberFormats::kFp32:
      return "--dtype f32";
    case NumberFormats::kFp64:
      return "--dtype f64";
    case NumberFormats::kBf16Mixed:
      return "--precision bf16 --grad-dtype bf16";
    case NumberFormats::kBf16MixedFp32Grads:
    case NumberFormats::kTwoBytes:
      break;
  }
  return "--precision bf16";
}

void append_words(std::vector<std::string>& words, const std::string& line) {
  std::istringstream all(line);
  for (std::string word; all >> word;) words.push_back(word);
}

CheckedLayout check(const Question& question, const Prediction& planned,
                    const std::string& cluster) {
  CheckedLayout checked{.planned = planned, .refusal = {}};
  std::vector<std::string> words = model_flags(question.work.model);
  for (const std::string& option : book_options(question.work, planned.layout)) {
    append_words(words, option);
  }
  append_words(words, precision_flags(planned.layout.precision));
  words.insert(words.end(), {"--on", cluster});
  try {
    const train::Setup setup = train::parse_setup(five_d::techniques(), words);
    const train::OnReport report = train::price(
        setup, setup.on.machine->cluster,
        train::record_ranks(setup, train::ranks_that_differ(setup)), replay::Spans::kDropped);
    checked.recorded_seconds = report.seconds;
    for (const train::OnMemory& rank : report.memory) {
      checked.recorded_bytes =
          std::max(checked.recorded_bytes, static_cast<double>(rank.at_peak.total()));
    }
  } catch (const ConfigError& refusal) {
    checked.refusal = refusal.what();
  }
  return checked;
}

}  // namespace

std::vector<CheckedLayout> check_plan(const Question& question, const std::vector<Prediction>& best,
                                      std::size_t count, const std::string& cluster) {
  std::vector<CheckedLayout> all;
  for (std::size_t i = 0; i < std::min(count, best.size()); ++i) {
    all.push_back(check(question, best[i], cluster));
  }
  return all;
}

std::string check_to_text(const std::vector<CheckedLayout>& checked) {
  const auto bytes = [](double number) { return format_bytes(static_cast<std::uint64_t>(number)); };
  std::string text = fmt::format(
      "\n  The same layouts, recorded: a step of this program, which may hide and keep other "
      "things\n"
      "  {:>2}  {:>9}  {:>9}  {:>7}  {:>9}  {:>9}  {:>7}\n",
      "", "planned", "recorded", "", "planned", "recorded", "");
  for (std::size_t i = 0; i < checked.size(); ++i) {
    const CheckedLayout& one = checked[i];
    if (!one.refusal.empty()) {
      text += fmt::format("  {:>2}  {}\n", i + 1, one.refusal);
      continue;
    }
    const double seconds = one.planned.step.total();
    const double planned_bytes = one.planned.memory.total();
    text += fmt::format("  {:>2}  {:>9}  {:>9}  {:>+5.1f} %  {:>9}  {:>9}  {:>+5.1f} %\n", i + 1,
                        format_seconds(seconds), format_seconds(one.recorded_seconds),
                        100 * (one.recorded_seconds / seconds - 1), bytes(planned_bytes),
                        bytes(one.recorded_bytes), 100 * (one.recorded_bytes / planned_bytes - 1));
  }
  return text;
}

Json check_to_json(const std::vector<CheckedLayout>& checked) {
  Json rows = Json::array();
  for (const CheckedLayout& one : checked) {
    Json row = {{"layout", one.planned.layout.str()},
                {"planned_seconds", one.planned.step.total()},
                {"planned_bytes", one.planned.memory.total()}};
    if (one.refusal.empty()) {
      row["recorded_seconds"] = one.recorded_seconds;
      row["recorded_bytes"] = one.recorded_bytes;
    } else {
      row["refusal"] = one.refusal;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace ultra::planner
