#include "chapters/06_context_parallel/estimate/context_estimate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/04_zero/estimate/zero_estimate.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"
#include "chapters/06_context_parallel/options/context_parallel_options.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"

namespace ultra::context_parallel {
namespace {

/// The same share of the model, of sequences on so many ranks. Its methods keep as much as a ring.
LocalModel with_ranks(LocalModel share, int cp) {
  const bool all = share.choice.ulysses == share.choice.cp;
  share.layout.cp = cp;
  share.choice.cp = cp;
  share.choice.ulysses = all ? cp : std::min(share.choice.ulysses, cp);
  return share;
}

/// The states of as many replicas, with so many ranks to a sequence; a node has at most all of these.
zero::Sharding sharding_of(const ContextRequest& request, int cp) {
  const auto& [stage, shards, replicas] = request.sharding;
  const int all = shards * replicas / request.share.layout.cp * cp;
  const int kept = std::min(shards, all);
  return {.stage = stage, .shards = kept, .replicas = all / kept};
}

ContextEstimate estimate(const ContextRequest& request, int cp) {
  const auto& [shape, batch, precision, recompute] = request.model;
  const LocalModel share = with_ranks(request.share, cp);
  return {
      .cp = cp,
      .local_seq_len = share.layout.local_seq_len(),
      .states =
          zero::bytes_per_rank(sharding_of(request, cp),
                               tensor_parallel::parameter_count(shape, share.tensor), precision),
      .activations_per_layer =
          block_activation_bytes(shape, batch.size, precision, recompute.mode, share),
      .peak_activations = peak_activation_bytes(shape, batch.size, precision, recompute, share)};
}

std::string heading(const ContextRequest& request) {
  const auto& [shape, batch, precision, recompute] = request.model;
  std::string text =
      fmt::format("Context parallelism: {}, {}, {} sequence{} of {} tokens, recomputation: {}\n",
                  shape.name, to_string(precision), batch.size, batch.size == 1 ? "" : "s",
                  batch.seq_len, to_string(recompute.mode));
  if (request.share.tensor.tp > 1) {
    text += fmt::format("  each rank has 1/{} of the matrices (--tp)\n", request.share.tensor.tp);
  }
  const auto& [stage, shards, replicas] = request.sharding;
  if (stage != zero::ZeroStage::kNone) {
    text += fmt::format("  {} on dp {} times cp ranks{}\n", name_of(stage),
                        shards * replicas / request.share.layout.cp,
                        replicas == 1 ? "" : fmt::format(", in shards on {} of them", shards));
  }
  return text + "\n";
}

std::string format_table(const std::vector<ContextEstimate>& estimates) {
  const bool small = estimates.front().total() < 1e10;
  const double unit = small ? 1e6 : 1e9;
  const auto cell = [&](double bytes) { return fmt::format("{:.2f}", bytes / unit); };
  std::string table =
      fmt::format("  {:>4}{:>10}{:>12}{:>12}{:>12}{:>13}{:>10}   {}\n", "cp", "tokens",
                  "parameters", "gradients", "optimizer", "activations", "total",
                  small ? "MB per rank; fits 80 GB" : "GB per rank; fits 80 GB");
  for (const ContextEstimate& one : estimates) {
    table +=
        fmt::format("  {:>4}{:>10}{:>12}{:>12}{:>12}{:>13}{:>10}   {}\n", one.cp, one.local_seq_len,
                    cell(one.states.parameters), cell(one.states.gradients),
                    cell(one.states.optimizer), cell(static_cast<double>(one.peak_activations)),
                    cell(one.total()), one.fits() ? "yes" : "no");
  }
  return table;
}

std::string verdict(const std::vector<ContextEstimate>& estimates) {
  const auto first = std::ranges::find_if(estimates, &ContextEstimate::fits);
  if (first == estimates.end()) return "None of these fits on GPUs of 80 GB.\n";
  return fmt::format("Fewest ranks that fit on GPUs of 80 GB: cp {}.\n", first->cp);
}

Json to_json(const ContextEstimate& one) {
  return {{"cp", one.cp},
          {"tokens_per_rank", one.local_seq_len},
          {"parameters_bytes", one.states.parameters},
          {"gradients_bytes", one.states.gradients},
          {"optimizer_bytes", one.states.optimizer},
          {"activations_per_layer_bytes", one.activations_per_layer},
          {"peak_activations_bytes", one.peak_activations},
          {"total_bytes", one.total()},
          {"fits", one.fits()}};
}

}  // namespace

void ContextRequest::validate() const {
  share.layout.validate();
  tensor_parallel::validate(model.shape, model.batch, share.tensor);
  expect_heads(share.choice, model.shape.num_heads, model.shape.num_kv_heads,
               static_cast<std::size_t>(share.tensor.tp));
}

std::vector<ContextEstimate> estimate_up_to(const ContextRequest& request) {
  request.validate();
  std::vector<ContextEstimate> estimates;
  for (int cp = 1; cp <= request.share.layout.cp; ++cp) {
    if (request.share.layout.cp % cp == 0) estimates.push_back(estimate(request, cp));
  }
  return estimates;
}

std::string answer(const memory::MemoryOptions& options, const train::TrainOptions& train,
                   const LocalModel& share, const zero::Sharding& sharding) {
  if (zero::nominal_size(options.estimate)) {
    throw ConfigError(fmt::format(
        "--estimate {}: a size does not say how wide the activations are that --cp splits. Give a "
        "model's name, or 'custom' (with --layers, --hidden, ...).",
        options.estimate));
  }
  ContextRequest request{.model = options.request(train), .share = share, .sharding = sharding};
  request.share.layout.seq_len = request.model.batch.seq_len;
  const memory::MemoryEstimate whole = memory::estimate_memory(request.model);
  const std::vector<ContextEstimate> estimates = estimate_up_to(request);
  if (!options.json) {
    return memory::format_estimate(whole) + "\n" + heading(request) + format_table(estimates) +
           "\n" + verdict(estimates) +
           "Not counted: temporary results, keys and values on their way.\n";
  }
  Json json = memory::estimate_to_json(whole);
  json["cp"] = share.layout.cp;
  json["tp"] = share.tensor.tp;
  json["context_layouts"] = Json::array();
  for (const ContextEstimate& one : estimates) json["context_layouts"].push_back(to_json(one));
  return json.dump(2) + "\n";
}

}  // namespace ultra::context_parallel
