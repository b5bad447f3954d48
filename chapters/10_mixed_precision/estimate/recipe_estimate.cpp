// `10_mixed_precision --estimate MODEL --precision bf16`: the bytes of a recipe, rank by rank of each
// stage of ZeRO.

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "chapters/01_memory/estimate/estimate_report.hpp"
#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/01_memory/memory.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/estimate/trained_shares.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/10_mixed_precision/mixed_precision.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/base/numeric.hpp"
#include "common/base/units.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr std::array kStages = {zero::ZeroStage::kNone, zero::ZeroStage::kOptimizer,
                                zero::ZeroStage::kGradients, zero::ZeroStage::kParameters};

void expect_known_layout(const train::Setup& setup) {
  for (const auto& [axis, flag] :
       {std::pair{tensor_parallel::kAxis, "--tp"}, std::pair{context_parallel::kAxis, "--cp"},
        std::pair{pipeline_parallel::kAxis, "--pp"}, std::pair{expert_parallel::kAxis, "--ep"}}) {
    if (setup.ranks_along(axis) == 1) continue;
    throw ConfigError(fmt::format(
        "{} does not go together with an estimate in --precision {}: it knows replicas and ZeRO. "
        "Use --precision bf16-mixed, or leave {} out.",
        flag, "bf16, bf16-pure, fp16 or fp8", flag));
  }
  if (!setup.identity().contains("--experts")) return;
  throw ConfigError(
      "--experts does not go together with an estimate in --precision bf16, bf16-pure, fp16 or "
      "fp8: it knows dense models. Use --precision bf16-mixed.");
}

zero::RankBytes bytes_of(const train::Setup& setup, zero::ZeroStage stage, int ranks,
                         std::size_t parameters, std::size_t layers) {
  return zero::trained_bytes_per_rank(memory::formats_of(setup),
                                      {.stage = stage, .shards = ranks, .replicas = 1}, parameters,
                                      layers);
}

std::string in_gigabytes(double bytes) { return fmt::format("{:.2f} GB", bytes / 1e9); }

Json json_of(const zero::RankBytes& bytes) {
  return {{"parameters", bytes.parameters},
          {"gradients", bytes.gradients},
          {"optimizer", bytes.optimizer},
          {"total", bytes.total()}};
}

std::string json_answer(const train::Setup& setup, const memory::MemoryEstimate& model,
                        const std::string& recipe, int ranks) {
  Json json = memory::estimate_to_json(model);
  json["precision"] = recipe;
  json.erase("bytes");
  json.erase("fits_80gb_gpu");
  json.erase("min_80gb_gpus");
  json["bytes_per_parameter"] = json_of(bytes_of(setup, zero::ZeroStage::kNone, 1, 1, 0));
  json["ranks"] = ranks;
  json["stages"] = Json::array();
  for (const zero::ZeroStage stage : kStages) {
    json["stages"].push_back(json_of(
        bytes_of(setup, stage, ranks, model.parameter_count, model.request.shape.num_layers)));
  }
  return json.dump(2) + "\n";
}

std::string table_answer(const train::Setup& setup, const memory::MemoryEstimate& model,
                         const std::string& recipe, int ranks) {
  const memory::StateWidths per = memory::formats_of(setup).states;
  std::string table = fmt::format(
      "Memory estimate: {}, {} parameters, trained in {}\n\n"
      "  {:.4g} + {:.4g} + {:.4g} = {:.4g} bytes per parameter: weights, gradients, and what the "
      "optimizer keeps\n\n"
      "  {:<10}{:>14}{:>14}{:>14}{:>14}{:>18}\n",
      model.request.shape.name, format_count(model.parameter_count), recipe, per.parameters,
      per.gradients, per.optimizer(), per.parameters + per.gradients + per.optimizer(),
      fmt::format("{} ranks", ranks), "parameters", "gradients", "optimizer", "together",
      "with activations");
  for (const zero::ZeroStage stage : kStages) {
    const zero::RankBytes bytes =
        bytes_of(setup, stage, ranks, model.parameter_count, model.request.shape.num_layers);
    fmt::format_to(std::back_inserter(table), "  {:<10}{:>14}{:>14}{:>14}{:>14}{:>18}\n",
                   zero::name_of(stage), in_gigabytes(bytes.parameters),
                   in_gigabytes(bytes.gradients), in_gigabytes(bytes.optimizer),
                   in_gigabytes(bytes.total()),
                   in_gigabytes(bytes.total() + static_cast<double>(model.peak_activations)));
  }
  return table + fmt::format(
                     "\n  Activations of a micro-batch of {} x {} tokens, in two bytes, sums of "
                     "rows in four{}: {}.\n"
                     "  Not counted: buffers.\n",
                     model.request.batch.size, model.request.batch.seq_len,
                     memory::keeps_codes(model.request.precision)
                         ? ", inputs of linear layers in one with their scales"
                         : "",
                     in_gigabytes(static_cast<double>(model.peak_activations)));
}

}  // namespace

std::optional<std::string> MixedPrecision::estimate(const train::Setup& setup) const {
  if (!options_.is_mixed() && !options_.moment_bytes()) return {};
  const auto dp = data_parallel::options_of(setup).dp;
  const auto ranks = checked_cast<int>(dp.value_or(setup.comm.ranks.value_or(8)));
  const std::string recipe(to_string(options_.recipe));
  expect_known_layout(setup);
  const memory::MemoryOptions& asked = memory::options_of(setup);
  memory::EstimateRequest request = asked.request(setup.train);
  request.precision = memory::formats_of(setup).activations;
  const memory::MemoryEstimate model = memory::estimate_memory(request);
  return asked.json ? json_answer(setup, model, recipe, ranks)
                    : table_answer(setup, model, recipe, ranks);
}

}  // namespace ultra::mixed_precision
