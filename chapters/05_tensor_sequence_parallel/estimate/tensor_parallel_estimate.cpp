#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/04_zero/estimate/zero_estimate.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"
#include "common/base/errors.hpp"
#include "common/base/units.hpp"

namespace ultra::tensor_parallel {
namespace {

// Layouts -----------------------------------------------------------------------------------------

TensorParallelRequest with_layout(TensorParallelRequest request, int tp,
                                  SequenceParallel sequence_parallel) {
  request.layout = {.tp = tp, .sequence_parallel = sequence_parallel};
  return request;
}

bool can_split(const TensorParallelRequest& request) {
  try {
    request.validate();
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

/// The answer that was asked for; pairs end with it.
const RankEstimate& requested(const std::vector<RankEstimatePair>& pairs,
                              const TensorParallelLayout& layout) {
  const RankEstimatePair& last = pairs.back();
  return layout.splits_sequences() ? last.with.value() : last.without;
}

// The table ---------------------------------------------------------------------------------------

std::string heading(const TensorParallelRequest& request) {
  const auto& [shape, batch, precision, recompute] = request.model;
  std::string text =
      fmt::format("Tensor parallelism: {}, {}, {} sequence{} of {} tokens, recomputation: {}\n",
                  shape.name, to_string(precision), batch.size, batch.size == 1 ? "" : "s",
                  batch.seq_len, to_string(recompute.mode));
  const auto& [stage, shards, replicas] = request.sharding;
  if (shards * replicas > 1) {
    text +=
        fmt::format("  {} on {} ranks that have the same part of the model{}\n",
                    stage == zero::ZeroStage::kNone ? "copies" : name_of(stage), shards * replicas,
                    replicas == 1 ? "" : fmt::format(", in shards on {} of them", shards));
  }
  return text + "\n";
}

std::string_view fit_word(const RankEstimatePair& pair) {
  if (pair.without.fits()) return "yes";
  return pair.with && pair.with->fits() ? "with SP" : "no";
}

std::string format_table(const std::vector<RankEstimatePair>& pairs) {
  const bool small = pairs.front().without.total() < 1e10;
  const double unit = small ? 1e6 : 1e9;
  const auto cell = [&](double bytes) { return fmt::format("{:.2f}", bytes / unit); };
  std::string table = fmt::format("  {:<4}{:>36}   {:>22}   {:>22}\n", small ? "MB" : "GB",
                                  "per rank", "without SP", "with SP");
  fmt::format_to(std::back_inserter(table),
                 "  {:>4}{:>12}{:>12}{:>12}   {:>12}{:>10}   {:>12}{:>10}   {}\n", "tp",
                 "parameters", "gradients", "optimizer", "activations", "total", "activations",
                 "total", "fits 80 GB");
  for (const RankEstimatePair& pair : pairs) {
    const auto activations = [&](const RankEstimate& estimate) {
      return cell(static_cast<double>(estimate.peak_activations));
    };
    const auto& [parameters, gradients, optimizer] = pair.without.states;
    fmt::format_to(std::back_inserter(table),
                   "  {:>4}{:>12}{:>12}{:>12}   {:>12}{:>10}   {:>12}{:>10}   {}\n",
                   pair.without.layout.tp, cell(parameters), cell(gradients), cell(optimizer),
                   activations(pair.without), cell(pair.without.total()),
                   pair.with ? activations(*pair.with) : "-",
                   pair.with ? cell(pair.with->total()) : "-", fit_word(pair));
  }
  return table;
}

/// "tp 4 with sequence parallelism".
std::string name_of_layout(const TensorParallelLayout& layout) {
  return fmt::format("tp {} {} sequence parallelism", layout.tp,
                     layout.splits_sequences() ? "with" : "without");
}

/// The first layout that fits, of fewest ranks.
std::string verdict(const std::vector<RankEstimatePair>& pairs) {
  const auto first = std::find_if(pairs.begin(), pairs.end(), [](const RankEstimatePair& pair) {
    return pair.without.fits() || (pair.with && pair.with->fits());
  });
  if (first == pairs.end()) return "No layout here fits on GPUs of 80 GB.";
  return fmt::format(
      "Fewest ranks that fit on GPUs of 80 GB: {}.",
      name_of_layout(first->without.fits() ? first->without.layout : first->with->layout));
}

std::string notes(const TensorParallelRequest& request, const RankEstimate& rank) {
  const auto& shape = request.model.shape;
  const TensorParallelLayout& layout = request.layout;
  std::string text =
      fmt::format("At tp {} a rank has {} of {} parameters.\n", layout.tp,
                  format_count(rank.parameter_count), format_count(memory::parameter_count(shape)));
  if (layout.kv_copies(shape.num_kv_heads) > 1) {
    text += fmt::format("Each of the {} key/value heads is on {} ranks.\n", shape.num_kv_heads,
                        layout.kv_copies(shape.num_kv_heads));
  }
  const std::size_t rows = layout.local_vocab_size(shape.vocab_size) * layout.ranks();
  if (rows != shape.vocab_size) {
    text += fmt::format("The vocabulary of {} is padded to {}.\n", shape.vocab_size, rows);
  }
  return text +
         "SP: sequence parallelism, between the matrices.\n"
         "Not counted: temporary results, what is gathered for one matrix, communication "
         "buffers.\n";
}

// JSON --------------------------------------------------------------------------------------------

Json activations_to_json(const RankEstimate& estimate) {
  return {{"activations_per_layer", estimate.activations_per_layer},
          {"activations", estimate.peak_activations},
          {"total", estimate.total()},
          {"fits_80gb_gpu", estimate.fits()}};
}

Json states_to_json(const RankEstimate& estimate) {
  return {{"tp", estimate.layout.tp},
          {"parameters", estimate.parameter_count},
          {"bytes",
           {{"parameters", estimate.states.parameters},
            {"gradients", estimate.states.gradients},
            {"optimizer", estimate.states.optimizer}}}};
}

}  // namespace

void TensorParallelRequest::validate() const {
  model.validate();
  tensor_parallel::validate(model.shape, model.batch, layout);
}

RankEstimate estimate_rank(const TensorParallelRequest& request) {
  request.validate();
  const auto& [shape, batch, precision, recompute] = request.model;
  const std::size_t count = parameter_count(shape, request.layout);
  return {.layout = request.layout,
          .parameter_count = count,
          .states = zero::bytes_per_rank(request.sharding, count, precision),
          .activations_per_layer =
              block_activation_bytes(shape, batch, precision, recompute.mode, request.layout),
          .peak_activations =
              peak_activation_bytes(shape, batch, precision, recompute, request.layout)};
}

std::vector<RankEstimatePair> estimate_up_to(const TensorParallelRequest& request) {
  request.validate();
  std::vector<RankEstimatePair> pairs;
  for (int tp = 1; tp <= request.layout.tp; ++tp) {
    if (request.layout.tp % tp != 0) continue;
    const auto without = with_layout(request, tp, SequenceParallel::kOff);
    if (!can_split(without)) continue;
    RankEstimatePair pair{.without = estimate_rank(without), .with = std::nullopt};
    const auto with = with_layout(request, tp, SequenceParallel::kOn);
    if (with.layout.splits_sequences() && can_split(with)) pair.with = estimate_rank(with);
    pairs.push_back(pair);
  }
  return pairs;
}

std::string format_ranks(const TensorParallelRequest& request) {
  const std::vector<RankEstimatePair> pairs = estimate_up_to(request);
  const RankEstimate& rank = requested(pairs, request.layout);
  return heading(request) + format_table(pairs) + "\n" +
         fmt::format("{}: {:.2f} GB per rank.\n", name_of_layout(request.layout),
                     rank.total() / 1e9) +
         verdict(pairs) + "\n" + notes(request, rank);
}

Json ranks_to_json(const TensorParallelRequest& request) {
  const std::vector<RankEstimatePair> pairs = estimate_up_to(request);
  const RankEstimate& rank = requested(pairs, request.layout);
  const auto& [stage, shards, replicas] = request.sharding;
  Json json = {{"tp", request.layout.tp},
               {"sequence_parallel", request.layout.splits_sequences()},
               {"zero", {{"stage", number_of(stage)}, {"shards", shards}, {"replicas", replicas}}},
               {"per_rank", states_to_json(rank)},
               {"layouts", Json::array()}};
  json["per_rank"].update(activations_to_json(rank));
  for (const RankEstimatePair& pair : pairs) {
    Json entry = states_to_json(pair.without);
    entry["without_sp"] = activations_to_json(pair.without);
    entry["with_sp"] = pair.with ? activations_to_json(*pair.with) : Json();
    json["layouts"].push_back(std::move(entry));
  }
  return json;
}

std::string answer(const memory::MemoryOptions& options, const train::TrainOptions& train,
                   const TensorParallelLayout& layout, const zero::Sharding& sharding) {
  if (zero::nominal_size(options.estimate)) {
    throw ConfigError(fmt::format(
        "--estimate {}: a size does not say which matrices --tp splits. Give a model's name, or "
        "'custom' (with --layers, --hidden, ...).",
        options.estimate));
  }
  const TensorParallelRequest request{
      .model = options.request(train), .layout = layout, .sharding = sharding};
  const memory::MemoryEstimate whole = memory::estimate_memory(request.model);
  if (!options.json) return memory::format_estimate(whole) + "\n" + format_ranks(request);
  Json json = memory::estimate_to_json(whole);
  json.update(ranks_to_json(request));
  return json.dump(2) + "\n";
}

}  // namespace ultra::tensor_parallel
