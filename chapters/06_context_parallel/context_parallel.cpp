#include "chapters/06_context_parallel/context_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "chapters/01_memory/memory.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel_factory.hpp"
#include "chapters/06_context_parallel/sequence_chunks.hpp"
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

/// Into how many parts tensor parallelism cuts a rank's tokens.
std::size_t parts_of_tokens(const train::Setup& setup) {
  const auto* tensor = setup.find<tensor_parallel::TensorParallel>();
  return tensor && tensor->options().layout().splits_sequences() ? tensor->options().tp : 1;
}

double flops_of(const train::RankSummary& rank) {
  const auto& sums = rank.counters.sums();
  const auto found = sums.find(kAttentionFlops);
  return found == sums.end() ? 0 : found->second;
}

/// What the ranks of a run computed: the most, relative to the average.
std::string balance_line(const train::TrainResult& result) {
  double sum = 0;
  double most = 0;
  for (const train::RankSummary& rank : result.ranks) {
    sum += flops_of(rank);
    most = std::max(most, flops_of(rank));
  }
  const double average = sum / static_cast<double>(result.ranks.size());
  return fmt::format(
      "  Attention took {:.4g} floating-point operations per rank and step; the busiest rank "
      "{:.2f} times that.\n",
      average / static_cast<double>(result.steps_made()), average > 0 ? most / average : 1.0);
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

ContextLayout layout_of(const train::Setup& setup, const ContextParallelOptions& options) {
  return {.cp = checked_cast<int>(options.cp),
          .sequence = options.layout,
          .seq_len = setup.train.model.max_seq_len,
          .multiple_of = parts_of_tokens(setup)};
}

void ContextParallel::add_flags(CLI::App& app, train::Setup& setup) {
  options_.add_to(app);
  train::Flags(app, "Context parallel")
      .add("--doc-length", setup.train.doc_length,
           "tokens of a document on average: attention does not cross its borders; 0 makes each "
           "sequence one document");
}

void ContextParallel::validate(train::Setup&) { options_.validate(); }

void ContextParallel::validate_training(const train::Setup& setup) const {
  train::reject_conflicts(conflicts(setup));
  layout_of(setup, options_).validate();
  const nn::ModelConfig& model = setup.train.model;
  expect_heads(options_.choice(), model.num_heads, model.num_kv_heads,
               setup.ranks_along(tensor_parallel::kAxis));
}

std::vector<train::Conflict> ContextParallel::conflicts(const train::Setup& setup) const {
  const nn::LatentAttention& latent = setup.train.model.latent;
  return {{.first = "--attention mla-absorbed",
           .second = "--cp-method ulysses or ulysses+ring",
           .reason = "it deals out heads, and the latent is one key for all of them. Choose "
                     "--cp-method ring or all-gather, or --attention mla.",
           .broken = latent.on && latent.absorbed && options_.choice().ulysses > 1}};
}

train::ExtraConfig ContextParallel::config(const train::Setup& setup) const {
  return train::joined({options_.config(), {{"doc_length", setup.train.doc_length}}});
}

Axis axis_of(std::size_t ranks) {
  return {.name = std::string(kAxis),
          .size = ranks,
          .splits = Splits::kTokens,
          .nearness = 30,
          .flag = fmt::format("--cp {}", ranks)};
}

std::optional<Axis> ContextParallel::axis() const {
  Axis axis = axis_of(options_.cp);
  axis.alike = options_.layout == SequenceLayout::kZigzag;
  return axis;
}

// [region technique]
void ContextParallel::configure_plan(train::Plan& plan, const train::Setup& setup) const {
  if (!options_.splits()) return;
  deal_out(plan, layout_of(setup, options_), plan.mesh.along(kAxis).rank());
}

void ContextParallel::wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                                  const train::Setup& setup) const {
  if (!options_.splits()) return;
  factories.push_back(std::make_unique<ContextParallelFactory>(
      *factories.back(),
      ContextGroups(plan.mesh.along(kAxis), layout_of(setup, options_), options_.choice()),
      plan.counters.get()));
}
// [/region]

std::string ContextParallel::table(const train::Setup& setup,
                                   const train::TrainResult& result) const {
  if (!options_.splits()) return {};
  const ContextLayout layout = layout_of(setup, options_);
  std::string padding;
  if (layout.padded_len() > layout.seq_len) {
    padding = fmt::format("  {} tokens of padding make each sequence {} chunks of {} tokens.\n",
                          layout.padded_len() - layout.seq_len,
                          layout.ranks() * layout.chunks_per_rank(), layout.chunk_len());
  }
  return "\n" + padding + balance_line(result);
}

void ContextParallel::write_formulas(train::Formulas& formulas, const train::Setup&) const {
  if (options_.splits()) formulas.clear();
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<ContextParallel>(); }

}  // namespace ultra::context_parallel
