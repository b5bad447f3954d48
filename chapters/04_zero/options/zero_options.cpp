#include "chapters/04_zero/options/zero_options.hpp"

#include <fmt/format.h>

#include <vector>

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/text.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::zero {
namespace {

const std::vector<train::Choice<ZeroStage>> kStages = {{"0", ZeroStage::kNone},
                                                       {"1", ZeroStage::kOptimizer},
                                                       {"2", ZeroStage::kGradients},
                                                       {"3", ZeroStage::kParameters}};
const std::vector<train::Choice<Reshard>> kReshards = {{"yes", Reshard::kAfterForward},
                                                       {"no", Reshard::kAfterBackward}};

const std::vector<train::Choice<ShardCut>> kCuts = {{"flat", ShardCut::kFlat},
                                                    {"rows", ShardCut::kRows}};

/// More than a model has.
constexpr std::size_t kMostUnits = 1'000'000;
constexpr std::size_t kMostMatrices = 1'000'000;

/// Throws when a flag is given that has a meaning only with `needed`.
void expect_meaning(bool given, const char* flag, bool has_meaning, const char* needed) {
  if (!given || has_meaning) return;
  throw ConfigError(fmt::format("{} has no meaning without {}.", flag, needed));
}

}  // namespace

void ZeroOptions::add_to(CLI::App& app) {
  const char* group = "ZeRO";
  train::add_choice(app, "--zero", stage, kStages, group,
                    "what exists as shards only: 0 nothing, 1 optimizer states, 2 gradients too, "
                    "3 parameters too");
  const train::Flags flags(app, group);
  flags.add_parsed(
      "--shards",
      [this](const std::string& word) { cut = train::parse_choice("--shards", word, kCuts); },
      "how tensors are cut into shards: flat, all as one array, or rows, each for itself by whole "
      "rows (with --zero 3) [flat]");
  flags.add_parsed(
      "--gather-dtype",
      [this](const std::string& word) {
        if (word != "bf16") {
          throw ConfigError(fmt::format("--gather-dtype is {}, expected bf16.", in_quotes(word)));
        }
        gather = DType::kBF16;
      },
      "with --shards rows: rows are rounded to bf16 before they are gathered, and stay what they "
      "are "
      "on their owner [the type of the weights]");
  flags.add("--prefetch", prefetch,
            "units whose weights are gathered ahead, with --zero 3 [1; 0 with --overlap none]",
            {0, kMostUnits});
  flags.add_parsed(
      "--reshard-after-forward",
      [this](const std::string& word) {
        reshard = train::parse_choice("--reshard-after-forward", word, kReshards);
      },
      "with --zero 3: yes lets go of gathered weights between forward and backward, no keeps them "
      "[yes]");
  flags.add("--hybrid-shard", node_size,
            "shard inside nodes of so many ranks, and keep a copy in each [all ranks]",
            {1, train::kMostRanks});
  flags.add("--reduce-scatter", reduce_scatter,
            "algorithm that adds gradients up to shards, of those that --op reduce_scatter lists");
  flags.add("--muon-batch", muon_batch,
            "with --optimizer muon: matrices that each rank makes whole at a time, which takes "
            "memory for so many [all]",
            {1, kMostMatrices});
  plus_plus.add_to(app);
  train::when_given(app, "--bucket-mb", [this] { bucket_mb_given_ = true; });
}

void ZeroOptions::validate(const data_parallel::DataParallelOptions& data_parallel) const {
  const bool all = stage == ZeroStage::kParameters;
  expect_meaning(cut.has_value(), "--shards", shards(), "--zero 1, 2 or 3");
  expect_meaning(gather.has_value(), "--gather-dtype", all && cut == ShardCut::kRows,
                 "--zero 3 --shards rows");
  expect_meaning(prefetch.has_value(), "--prefetch", all, "--zero 3");
  expect_meaning(reshard.has_value(), "--reshard-after-forward", all, "--zero 3");
  train::under_flag("--reduce-scatter", "", [&] { static_cast<void>(algorithms(data_parallel)); });
  plus_plus.validate(plus_plus_context());
  train::reject_conflicts(conflicts(data_parallel));
}

ZeroPlusPlusContext ZeroOptions::plus_plus_context() const {
  return {.stage = stage,
          .reshard = reshard.value_or(Reshard::kAfterForward),
          .hybrid_shard = node_size};
}

std::vector<train::Conflict> ZeroOptions::conflicts(
    const data_parallel::DataParallelOptions& data_parallel) const {
  std::vector<train::Conflict> all = plus_plus.conflicts(plus_plus_context());
  const auto exclude = [&](bool broken, const char* flag, const std::string& zero,
                           const char* reason) {
    all.push_back({.first = flag, .second = zero, .reason = reason, .broken = broken});
  };
  const std::string any =
      shards() ? fmt::format("--zero {}", number_of(stage)) : "--zero 1, 2 or 3";
  exclude(shards() && data_parallel.compress != "none", "--compress", any,
          "compressed gradients travel to all ranks, not to the owner of a shard.");
  const bool units = stage == ZeroStage::kParameters;
  const bool rows = cut == ShardCut::kRows;
  exclude(rows && shards() && !units, "--shards rows",
          shards() && !units ? fmt::format("--zero {}", number_of(stage)) : "--zero 1 or 2",
          "every rank keeps all weights there: rows would add padding and copies, and save "
          "nothing. Use --zero 3, or leave out --shards.");
  exclude(rows && !plus_plus.techniques.empty(), "--shards rows", "--zero++",
          "its units are flat. Leave out one of the two flags.");
  exclude(units && data_parallel.check_replicas > 0, "--check-replicas", "--zero 3",
          "there are no replicas of the weights to compare.");
  exclude(units && data_parallel.overlap == data_parallel::GradientOverlap::kPerParameter,
          "--overlap per-parameter", "--zero 3", "whole blocks travel.");
  exclude(units && bucket_mb_given_, "--bucket-mb", "--zero 3",
          "whole blocks travel, whatever their size.");
  exclude(units && data_parallel.overlap == data_parallel::GradientOverlap::kNone &&
              prefetch.value_or(0) > 0,
          "--prefetch", "--zero 3 --overlap none", "--overlap none waits for each gather at once.");
  return all;
}

void ZeroOptions::expect_narrower(DType weights) const {
  if (!gather || size_of(*gather) < size_of(weights)) return;
  throw ConfigError(
      fmt::format("--gather-dtype {} has no meaning for weights of {}, which travel in no more "
                  "bytes as they are. "
                  "Leave out --gather-dtype.",
                  to_string(*gather), to_string(weights)));
}

void ZeroOptions::expect_nodes_of(int replicas) const {
  expect_meaning(node_size.has_value(), "--hybrid-shard", shards(), "--zero 1, 2 or 3");
  if (node_size) expect_whole_nodes(checked_cast<std::size_t>(replicas), *node_size);
  plus_plus.expect_nodes_of(replicas);
}

Sharding ZeroOptions::sharding(int replicas) const {
  const int shards = node_size ? checked_cast<int>(*node_size) : replicas;
  return {.stage = stage, .shards = shards, .replicas = replicas / shards};
}

ZeroSettings ZeroOptions::settings(const data_parallel::DataParallelOptions& data_parallel,
                                   DType dtype) const {
  using When = data_parallel::GradientOverlap;
  const bool overlaps = data_parallel.overlap != When::kNone;
  const bool by_parameter = data_parallel.overlap == When::kPerParameter;
  return {.stage = stage,
          .bucket_capacity = by_parameter ? 0 : data_parallel.bucket_capacity(dtype),
          .cut = cut.value_or(ShardCut::kFlat),
          .gather = gather,
          .overlap = overlaps ? Overlap::kOn : Overlap::kOff,
          .prefetch = prefetch.value_or(overlaps ? 1 : 0),
          .reshard = reshard.value_or(Reshard::kAfterForward),
          .plus_plus = plus_plus.settings};
}

std::shared_ptr<const comm::CollectiveAlgorithms> ZeroOptions::algorithms(
    const data_parallel::DataParallelOptions& data_parallel) const {
  return std::make_shared<const collectives::BookAlgorithms>(
      collectives::BookOptions{.names = {{OpKind::kAllReduce, data_parallel.all_reduce},
                                         {OpKind::kReduceScatter, reduce_scatter}},
                               .tuning = {}});
}

train::ExtraConfig ZeroOptions::config(
    const data_parallel::DataParallelOptions& data_parallel) const {
  train::ExtraConfig config{{"zero", static_cast<std::size_t>(number_of(stage))}};
  if (muon_batch) config.emplace_back("muon_batch", *muon_batch);
  if (!shards()) return config;
  config.emplace_back("hybrid_shard", node_size.value_or(0));
  config.emplace_back("reduce_scatter", reduce_scatter);
  if (stage != ZeroStage::kParameters) return config;
  config.emplace_back("shards", std::string(cut == ShardCut::kRows ? "rows" : "flat"));
  if (gather) config.emplace_back("gather_dtype", std::string(to_string(*gather)));
  config.emplace_back("prefetch", settings(data_parallel, DType::kF32).prefetch);
  config.emplace_back("reshard_after_forward",
                      reshard == Reshard::kAfterBackward ? std::string("no") : std::string("yes"));
  return train::joined({config, plus_plus.config()});
}

}  // namespace ultra::zero
