#include "chapters/08_expert_parallel/estimate/expert_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/01_memory/memory.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/03_data_parallel/options/micro_batch_sizes.hpp"
#include "chapters/04_zero/estimate/trained_shares.hpp"
#include "chapters/04_zero/estimate/zero_estimate.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_table.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/06_context_parallel/estimate/context_table.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/08_expert_parallel/estimate/expert_volume.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/units.hpp"

namespace ultra::expert_parallel {
namespace {

context_parallel::LocalModel share_of(const train::Setup& setup) {
  const auto* context = setup.find<context_parallel::ContextParallel>();
  ensure(context != nullptr, "a program without chapter 06");
  return context_parallel::share_of(setup, context->options());
}

/// Of the first replica: the first one is a largest one.
std::vector<std::size_t> micro_batches_of(const train::Setup& setup) {
  return data_parallel::micro_batch_sizes(setup.train, static_cast<std::size_t>(setup.replicas()));
}

std::size_t rounded(double bytes) { return static_cast<std::size_t>(std::llround(bytes)); }

tensor_parallel::PredictedBytes predictions(const train::Setup& setup, const MoeModel& model,
                                            const LocalMoe& rank) {
  const memory::StoredFormats formats = memory::formats_of(setup);
  const std::size_t sequences = micro_batches_of(setup).front();
  zero::RankBytes states = zero::in_formats(
      formats, state_bytes(rank_parameters(model, rank),
                           zero::zero_of(setup).options().sharding(setup.data_ranks()), rank.ep,
                           memory::NumberFormats::kFp32));
  // Of the linear maps of blocks; experts that every token uses are among them, the others not.
  const bool shared = model.moe.shared_experts > 0;
  const zero::RankBytes histories = zero::history_bytes(
      formats, (model.dense_blocks + (shared ? model.moe_blocks() : 0)) * formats.block_history() +
                   (shared ? 0 : model.moe_blocks()) * formats.attention_history());
  states.parameters += histories.parameters;
  states.gradients += histories.gradients;
  states.optimizer += histories.optimizer;
  const std::size_t activations =
      moe_peak_bytes(model, sequences, formats.activations, memory::options_of(setup).recompute,
                     rank, even_rows(model.moe, rank, sequences));
  return tensor_parallel::predicted_bytes(states, activations);
}

/// What a rank of the first replica sends in a step if tokens are spread evenly.
double even_bytes(const train::Setup& setup, const MoeModel& model, const LocalMoe& rank) {
  const std::vector<std::size_t> micro_batches = micro_batches_of(setup);
  const std::size_t share = std::reduce(micro_batches.begin(), micro_batches.end());
  const bool again = memory::options_of(setup).recompute.mode == memory::Recompute::kFull;
  const double tokens = static_cast<double>(rank.tokens(share));
  return static_cast<double>(model.shape.num_layers) *
         exchanged_bytes(even_remote_rows(model.moe, tokens, rank.ep), micro_batches.size(),
                         again ? 2 : 1, model.shape.hidden_size, model.moe.num_experts, rank.ep,
                         size_of(setup.train.formats().compute));
}

/// Shares in percent; of many experts, the extremes.
std::string shares_in_words(const std::vector<double>& shares) {
  constexpr std::size_t kColumns = 16;
  std::string text;
  if (shares.size() <= kColumns) {
    for (const double share : shares) text += fmt::format("{:>7.1f}", 100 * share);
    return text;
  }
  const auto [least, most] = std::ranges::minmax_element(shares);
  const auto without = std::ranges::count(shares, 0.0);
  return fmt::format("  from {:.2f} to {:.2f} (expert {}), {} of {} without tokens", 100 * *least,
                     100 * *most, most - shares.begin(), without, shares.size());
}

}  // namespace

std::string format_loads(const train::TrainResult& result, std::size_t layers) {
  const auto& figures = result.steps.back().figures;
  std::string text = "\nShares of the experts in the last step, in percent\n\n";
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const auto found = figures.find(fmt::format("expert_load.{}", layer));
    if (found == figures.end()) return {};  // an earlier run has made the last step
    text += fmt::format("  layer {:<4}{}\n", layer, shares_in_words(found->second));
  }
  return text;
}

namespace {

MoeModel model_of(const memory::TransformerShape& shape, const ExpertParallelOptions& options) {
  return {.shape = shape, .moe = options.config(shape.ffn_hidden_size)};
}

/// The model that --estimate names: a published one has its own experts.
MoeModel asked_model(const train::Setup& setup, const ExpertParallelOptions& options) {
  const std::string& name = memory::options_of(setup).estimate;
  if (const MoeModel* published = find_moe_model(name)) {
    if (!options.has_experts()) return *published;
    throw ConfigError(fmt::format(
        "--estimate {} has experts of its own: leave out --experts and what belongs to it.", name));
  }
  if (zero::nominal_size(name)) {
    throw ConfigError(fmt::format(
        "--estimate {}: a size does not say how large the experts are. Give a model's name, or "
        "'custom' (with --layers, --hidden, ...).",
        name));
  }
  return model_of(memory::shape_for_estimate(name, setup.train.model), options);
}

bool is_custom(std::string_view name) {
  return std::ranges::equal(name, std::string_view("custom"),
                            [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
}

}  // namespace

void expect_known_model(const std::string& name) {
  if (is_custom(name) || zero::nominal_size(name)) return;
  try {
    static_cast<void>(memory::find_preset(name));
  } catch (const ConfigError& unknown) {
    std::vector<std::string> names;
    for (const MoeModel& model : published_moe_models()) names.push_back(model.shape.name);
    throw ConfigError(fmt::format(
        "{} Models with experts are {}. Or give a size, such as 7.5B: the stages of ZeRO need no "
        "more.",
        unknown.what(), fmt::join(names, " and ")));
  }
}

LocalMoe rank_share_of(const train::Setup& setup, const ExpertParallelOptions& options) {
  return {.share = share_of(setup), .ep = options.ep};
}

ExpertRequest request_of(const train::Setup& setup, const ExpertParallelOptions& options) {
  const memory::MemoryOptions& memory = memory::options_of(setup);
  const std::size_t replicas = data_parallel::options_of(setup).dp.value_or(1);
  const auto ranks = checked_cast<int>(replicas * setup.ranks_along(context_parallel::kAxis));
  const zero::ZeroOptions& zero = zero::zero_of(setup).options();
  zero.expect_nodes_of(ranks);
  return {.model = asked_model(setup, options),
          .batch = {.size = setup.train.micro_batch, .seq_len = setup.train.model.max_seq_len},
          .precision = memory.precision,
          .recompute = memory.recompute,
          .rank = rank_share_of(setup, options),
          .sharding = zero.sharding(ranks)};
}

std::string format_expert_table(const train::Setup& setup, const ExpertParallelOptions& options,
                                const train::TrainResult& result) {
  const MoeModel model = model_of(memory::shape_of(setup.train.model), options);
  const LocalMoe rank = rank_share_of(setup, options);
  const bool staged = setup.ranks_along(pipeline_parallel::kAxis) > 1;
  std::string table = fmt::format(
      "\nWhere the memory of rank 0 went ({} experts on ep {}; micro-batch {} x {} tokens, {})\n\n",
      model.moe.num_experts, rank.ep, micro_batches_of(setup).front(),
      rank.share.layout.local_seq_len(), staged ? "of a stage: not predicted" : "spread evenly");
  const tensor_parallel::PredictedBytes predicted =
      staged ? tensor_parallel::PredictedBytes([](MemoryCategory) { return std::nullopt; })
             : predictions(setup, model, rank);
  table += tensor_parallel::memory_columns(predicted, result.ranks.front());
  if (rank.ep > 1 && !staged) {
    table += fmt::format("\n  A rank sends {} to experts and back in a step, spread evenly.\n",
                         format_bytes(rounded(even_bytes(setup, model, rank))));
  }
  return table + format_loads(result, model.shape.num_layers);
}

}  // namespace ultra::expert_parallel
