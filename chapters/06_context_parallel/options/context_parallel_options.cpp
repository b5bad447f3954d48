#include "chapters/06_context_parallel/options/context_parallel_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::context_parallel {
namespace {

const std::vector<train::Choice<SequenceLayout>> kLayouts = {
    {"contiguous", SequenceLayout::kContiguous}, {"zigzag", SequenceLayout::kZigzag}};

const std::vector<train::Choice<ContextMethod>> kMethods = {
    {"ring", ContextMethod::kRing},
    {"all-gather", ContextMethod::kAllGather},
    {"ulysses", ContextMethod::kUlysses},
    {"ulysses+ring", ContextMethod::kUlyssesRing}};

/// No machine splits sequences over more.
constexpr std::size_t kMostRanks = 4096;

void expect_divides(std::size_t heads, const char* flag, std::size_t ranks, std::size_t tp) {
  if (heads % (tp * ranks) == 0) return;
  const std::string local =
      tp == 1 ? fmt::format("{} % {} = {}", heads, ranks, heads % ranks)
              : fmt::format("{} / {} heads per --tp rank, and {} % ({} * {}) = {}", heads, tp,
                            heads, tp, ranks, heads % (tp * ranks));
  throw ConfigError(fmt::format(
      "{} ranks exchange tokens for heads, so they must divide {}: {}. Choose --cp-method ring or "
      "all-gather, which leave the heads together, or ulysses+ring with a smaller --cp-ulysses.",
      ranks, flag, local));
}

}  // namespace

std::string_view to_string(ContextMethod method) {
  return std::ranges::find(kMethods, method, &train::Choice<ContextMethod>::second)->first;
}

void ContextParallelOptions::add_to(CLI::App& app) {
  const char* group = "Context parallel";
  const train::Flags flags(app, group);
  flags.add("--cp", cp, "ranks that share each sequence", {1, kMostRanks});
  train::add_choice(app, "--cp-layout", layout, kLayouts, group,
                    "which tokens a rank has: contiguous, or zigzag (an early and a late chunk)");
  train::add_choice(app, "--cp-method", method, kMethods, group,
                    "what travels: ring, all-gather (keys and values), ulysses (tokens for heads) "
                    "or ulysses+ring (for heads among neighbours, a ring across)");
  flags.add("--cp-ulysses", ulysses, "neighbours that exchange heads with ulysses+ring",
            {1, kMostRanks});
  train::Flags(app, "").add_parsed(
      "--cp-table",
      [](const std::string&) {
        throw ConfigError(
            "--cp-table is no longer there: --on prices the training itself. Write for example "
            "--model llama-8b --cp 2,4,8 --cp-method ring,all-gather --on dgx-h100.");
      },
      "");
  train::when_given(app, "--cp-layout", [this] { layout_given_ = true; });
  train::when_given(app, "--cp-method", [this] { method_given_ = true; });
}

void ContextParallelOptions::validate() const {
  const char* needless = layout_given_ ? "--cp-layout" : method_given_ ? "--cp-method" : nullptr;
  if (!splits() && (needless || ulysses)) {
    throw ConfigError(
        fmt::format("{} has no meaning without --cp: one rank has all of each sequence.",
                    needless ? needless : "--cp-ulysses"));
  }
  if (method != ContextMethod::kUlyssesRing && ulysses) {
    throw ConfigError(
        fmt::format("--cp-ulysses has a meaning with --cp-method ulysses+ring only; it is {}.",
                    to_string(method)));
  }
  if (method == ContextMethod::kUlyssesRing) {
    if (!ulysses) {
      throw ConfigError(
          "--cp-method ulysses+ring needs --cp-ulysses U: how many neighbours exchange heads.");
    }
    if (cp % *ulysses != 0) {
      throw ConfigError(
          fmt::format("--cp-ulysses must divide --cp: {} % {} = {}. Choose a divisor of {}.", cp,
                      *ulysses, cp % *ulysses, cp));
    }
  }
}

MethodChoice ContextParallelOptions::choice() const {
  const auto ranks = checked_cast<int>(cp);
  MethodChoice choice{.method = method, .cp = ranks};
  if (method == ContextMethod::kUlysses) choice.ulysses = ranks;
  if (method == ContextMethod::kUlyssesRing) {
    choice.ulysses = checked_cast<int>(ulysses.value_or(1));
  }
  return choice;
}

train::ExtraConfig ContextParallelOptions::config() const {
  return {{"cp", cp},
          {"cp_layout", std::string(to_string(layout))},
          {"cp_method", std::string(to_string(method))},
          {"cp_ulysses", static_cast<std::size_t>(choice().ulysses)}};
}

void expect_heads(const MethodChoice& choice, std::size_t heads, std::size_t kv_heads,
                  std::size_t tp) {
  const auto ranks = static_cast<std::size_t>(choice.ulysses);
  if (ranks == 1) return;
  expect_divides(heads, "--heads", ranks, tp);
  expect_divides(kv_heads, "--kv-heads", ranks, tp);
}

}  // namespace ultra::context_parallel
