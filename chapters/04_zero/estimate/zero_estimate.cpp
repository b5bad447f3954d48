#include "chapters/04_zero/estimate/zero_estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <regex>
#include <string_view>

#include "chapters/01_memory/estimate/estimate_report.hpp"
#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/04_zero/shards/shard_groups.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/units.hpp"

namespace ultra::zero {
namespace {

/// Far above this, bytes are no longer exact in a double.
constexpr std::size_t kMostParameters = 100'000'000'000'000;

double real(std::size_t value) { return static_cast<double>(value); }

// Words -------------------------------------------------------------------------------------------

bool is_hybrid(const StagesRequest& request) {
  return request.sharding(ZeroStage::kNone).replicas > 1;
}

/// "S" where nodes have copies, else "N": what shards are counted in.
std::string_view shards_letter(const StagesRequest& request) {
  return is_hybrid(request) ? "S" : "N";
}

/// What a rank keeps, in units of P.
std::string bytes_formula(const StagesRequest& request, ZeroStage stage) {
  const memory::StateBytes per = memory::bytes_per_parameter(request.precision);
  const std::string p = fmt::format("{} P", per.parameters);
  const std::string g = fmt::format("{} P", per.gradients);
  const std::string o = fmt::format("{} P", per.optimizer);
  const std::string_view shards = shards_letter(request);
  switch (stage) {
    case ZeroStage::kNone:
      return fmt::format("{} + {} + {}", p, g, o);
    case ZeroStage::kOptimizer:
      return fmt::format("{} + {} + {} / {}", p, g, o, shards);
    case ZeroStage::kGradients:
      return fmt::format("{} + ({} + {}) / {}", p, g, o, shards);
    case ZeroStage::kParameters:
      break;
  }
  return fmt::format("({} + {} + {}) / {}", p, g, o, shards);
}

/// What a rank sends to those that share its copy.
std::string inside_formula(const StagesRequest& request, ZeroStage stage) {
  const std::string_view n = shards_letter(request);
  std::string_view trips = "2";
  if (stage == ZeroStage::kGradients) trips = "(m + 1)";
  if (stage == ZeroStage::kParameters) trips = "3 m";
  return fmt::format("{} P ({} - 1) / {}", trips, n, n);
}

/// What a rank sends to those that hold its shard of another copy.
constexpr std::string_view kBetweenFormula = "2 (P / S) (R - 1) / R";

/// A number of parameters with three digits: 14.4B.
std::string format_size(double parameters) {
  double value = parameters / 1e6;
  std::string_view units = "MBT";
  while (value >= 999.5 && units.size() > 1) {
    value /= 1000.0;
    units.remove_prefix(1);
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, decimals, units.front());
}

// The table ---------------------------------------------------------------------------------------

std::string heading(const StagesRequest& request) {
  std::string text =
      fmt::format("Stages of ZeRO: {}, {}, P = {} parameters, N = {} rank{}\n", request.model,
                  to_string(request.precision), format_count(request.parameters), request.ranks,
                  request.ranks == 1 ? "" : "s");
  if (is_hybrid(request)) {
    const Sharding sharding = request.sharding(ZeroStage::kNone);
    text += fmt::format("  hybrid: shards on the S = {} ranks of a node, copies on R = {} nodes\n",
                        sharding.shards, sharding.replicas);
  }
  return text + "\n";
}

/// GB, or MB where GB would print little but zeros.
struct Unit {
  const char* name;
  double bytes;
};

Unit unit_for(const StageEstimate& largest) {
  return largest.with_activations < 1e10 ? Unit{"MB", 1e6} : Unit{"GB", 1e9};
}

std::string format_bytes_table(const StagesRequest& request, const StageEstimates& stages) {
  const Unit unit = unit_for(stages.front());
  const bool activations = request.peak_activations.has_value();
  std::string table = fmt::format("  {:<12}{:>12}{:>12}{:>12}{:>12}{}   {:<26}{:>11}\n",
                                  fmt::format("{} per rank", unit.name), "parameters", "gradients",
                                  "optimizer", "total", activations ? "  + activations" : "",
                                  "formula of the total", "80 GB hold");
  for (const StageEstimate& stage : stages) {
    const auto cell = [&](double bytes) { return fmt::format("{:.2f}", bytes / unit.bytes); };
    const std::string peak = activations ? fmt::format("{:>15}", cell(stage.with_activations)) : "";
    fmt::format_to(std::back_inserter(table), "  {:<12}{:>12}{:>12}{:>12}{:>12}{}   {:<26}{:>11}\n",
                   name_of(stage.sharding.stage), cell(stage.bytes.parameters),
                   cell(stage.bytes.gradients), cell(stage.bytes.optimizer),
                   cell(stage.bytes.total()), peak, bytes_formula(request, stage.sharding.stage),
                   format_size(stage.largest_model));
  }
  return table;
}

std::string format_sent_table(const StagesRequest& request, const StageEstimates& stages) {
  const bool hybrid = is_hybrid(request);
  const auto in_p = [&](double elements) {
    return fmt::format("{:.2f} P", elements / real(request.parameters));
  };
  std::string table =
      fmt::format("  Sent per rank and step, in elements, with m = {} micro-batch{}:\n",
                  format_count(request.micro_batches), request.micro_batches == 1 ? "" : "es");
  const auto add = [&](std::string_view name, const SentElements& sent, std::string_view inside,
                       std::string_view between) {
    fmt::format_to(std::back_inserter(table), "  {:<12}{:>12}   {:<22}", name, in_p(sent.inside),
                   inside);
    if (hybrid) {
      fmt::format_to(std::back_inserter(table), "{:>12}   {}", in_p(sent.between), between);
    }
    table.erase(table.find_last_not_of(' ') + 1);
    table += '\n';
  };
  if (hybrid) {
    fmt::format_to(std::back_inserter(table), "  {:<12}{:>12}   {:<22}{:>12}\n", "", "in a node",
                   "", "between");
  }
  for (const StageEstimate& stage : stages) {
    const ZeroStage number = stage.sharding.stage;
    add(name_of(number), stage.sent, inside_formula(request, number), kBetweenFormula);
    if (stage.kept) {
      const std::string_view n = shards_letter(request);
      add("  kept", *stage.kept, fmt::format("2 m P ({} - 1) / {}", n, n), kBetweenFormula);
    }
  }
  return table;
}

std::string verdict(const StagesRequest& request, const StageEstimates& stages) {
  const std::string_view what =
      request.peak_activations ? "Fits on 80 GB GPUs" : "The states fit on 80 GB GPUs";
  const auto first = first_that_fits(stages);
  if (!first) return fmt::format("{}: with no stage.", what);
  if (*first == ZeroStage::kNone) return fmt::format("{}: with every stage, and without.", what);
  if (*first == ZeroStage::kParameters) return fmt::format("{}: with ZeRO-3 only.", what);
  return fmt::format("{}: from {} on.", what, name_of(*first));
}

std::string notes(const StagesRequest& request) {
  return fmt::format(
      "80 GB hold: the largest model whose states fit into 80 GB per rank.\n"
      "kept: ZeRO-3 that keeps the parameters between forward and backward pass, all of them in "
      "memory then.\n"
      "Not counted: padding, gradients and parameters that are whole for a moment{}.\n"
      "ZeRO-3 sends a little less: the head stays at the forward-backward boundary.\n",
      request.peak_activations ? "" : ", activations");
}

// JSON --------------------------------------------------------------------------------------------

Json sent_to_json(const SentElements& sent) {
  return {{"inside", sent.inside}, {"between", sent.between}, {"total", sent.total()}};
}

Json stage_to_json(const StagesRequest& request, const StageEstimate& stage) {
  Json json = {{"stage", number_of(stage.sharding.stage)},
               {"name", name_of(stage.sharding.stage)},
               {"bytes",
                {{"parameters", stage.bytes.parameters},
                 {"gradients", stage.bytes.gradients},
                 {"optimizer", stage.bytes.optimizer},
                 {"total", stage.bytes.total()}}}};
  if (request.peak_activations) json["bytes"]["with_activations"] = stage.with_activations;
  json["sent_elements"] = sent_to_json(stage.sent);
  json["sent_per_parameter"] = stage.sent.total() / real(request.parameters);
  if (stage.kept) json["sent_elements_kept"] = sent_to_json(*stage.kept);
  json["largest_model_80gb"] = stage.largest_model;
  json["fits_80gb_gpu"] = stage.with_activations <= real(memory::kGpuBytes);
  return json;
}

// The command line --------------------------------------------------------------------------------

/// m: micro-batches of the rank that has most sequences.
std::size_t micro_batches_per_step(const train::TrainOptions& train, int ranks) {
  return ceil_div(ceil_div(train.global_batch, checked_cast<std::size_t>(ranks)),
                  train.micro_batch);
}

/// Chapter 01's estimate; an unknown name's message says that sizes are names, too.
memory::MemoryEstimate whole_model(const memory::MemoryOptions& options,
                                   const train::TrainOptions& train) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  constexpr std::string_view kCustom = "custom";
  if (!std::equal(options.estimate.begin(), options.estimate.end(), kCustom.begin(), kCustom.end(),
                  same)) {
    try {
      static_cast<void>(memory::find_preset(options.estimate));
    } catch (const ConfigError& unknown) {
      throw ConfigError(fmt::format(
          "{} Or give a size of up to 100T, such as 7.5B: the stages of ZeRO need no more.",
          unknown.what()));
    }
  }
  return memory::estimate_memory(options.request(train));
}

}  // namespace

void StagesRequest::validate() const {
  if (ranks < 1) throw ConfigError(fmt::format("--dp is {}. It must be at least 1.", ranks));
  if (node_size) expect_whole_nodes(checked_cast<std::size_t>(ranks), *node_size);
}

Sharding StagesRequest::sharding(ZeroStage stage) const {
  const int shards = node_size ? checked_cast<int>(*node_size) : ranks;
  return {.stage = stage, .shards = shards, .replicas = ranks / shards};
}

StageEstimates estimate_stages(const StagesRequest& request) {
  request.validate();
  StageEstimates stages;
  std::transform(kZeroStages.begin(), kZeroStages.end(), stages.begin(), [&](ZeroStage stage) {
    const Sharding sharding = request.sharding(stage);
    const auto sent = [&](Reshard reshard) {
      return sent_per_rank(sharding, request.parameters, request.micro_batches, reshard);
    };
    StageEstimate estimate{
        .sharding = sharding,
        .bytes = bytes_per_rank(sharding, request.parameters, request.precision),
        .sent = sent(Reshard::kAfterForward),
        .largest_model = largest_model(sharding, request.precision, real(memory::kGpuBytes))};
    estimate.with_activations = estimate.bytes.total() + real(request.peak_activations.value_or(0));
    if (shards_parameters(stage)) estimate.kept = sent(Reshard::kAfterBackward);
    return estimate;
  });
  return stages;
}

std::optional<ZeroStage> first_that_fits(const StageEstimates& stages) {
  const auto fits = [](const StageEstimate& stage) {
    return stage.with_activations <= real(memory::kGpuBytes);
  };
  const auto first = std::find_if(stages.begin(), stages.end(), fits);
  if (first == stages.end()) return std::nullopt;
  return first->sharding.stage;
}

std::string format_stages(const StagesRequest& request) {
  const StageEstimates stages = estimate_stages(request);
  return heading(request) + format_bytes_table(request, stages) + "\n" +
         format_sent_table(request, stages) + "\n" + verdict(request, stages) + "\n" +
         notes(request);
}

Json stages_to_json(const StagesRequest& request) {
  const StageEstimates stages = estimate_stages(request);
  Json json = {{"ranks", request.ranks},
               {"node_size", stages.front().sharding.shards},
               {"micro_batches", request.micro_batches},
               {"stages", Json::array()}};
  for (const StageEstimate& stage : stages) {
    json["stages"].push_back(stage_to_json(request, stage));
  }
  return json;
}

std::optional<std::size_t> nominal_size(const std::string& text) {
  static const std::regex kSize("([0-9]{1,9})(?:[.]([0-9]{1,9}))?([MBT])", std::regex::icase);
  std::smatch match;
  if (!std::regex_match(text, match, kSize)) return std::nullopt;
  const std::string fraction = match[2];
  const int letter = std::toupper(static_cast<unsigned char>(text.back()));
  const std::size_t zeros = letter == 'M' ? 6 : letter == 'B' ? 9 : 12;
  if (fraction.size() > zeros) return std::nullopt;
  std::size_t unit = 1;  // of the last digit of the fraction
  for (std::size_t digit = fraction.size(); digit < zeros; ++digit) unit *= 10;
  const std::size_t number = std::stoull(match[1].str() + fraction);
  if (number == 0 || number > kMostParameters / unit) return std::nullopt;
  return number * unit;
}

std::string answer(const memory::MemoryOptions& options, const train::TrainOptions& train,
                   int ranks, std::optional<std::size_t> node_size) {
  StagesRequest request{.model = options.estimate,
                        .precision = options.precision,
                        .ranks = ranks,
                        .node_size = node_size};
  request.validate();
  request.micro_batches = micro_batches_per_step(train, ranks);
  std::string table;
  Json json;
  if (const std::optional<std::size_t> size = nominal_size(options.estimate)) {
    request.parameters = *size;
    json = {{"model", {{"name", options.estimate}}},
            {"precision", to_string(options.precision)},
            {"parameters", *size}};
  } else {
    const memory::MemoryEstimate whole = whole_model(options, train);
    request.model = whole.request.shape.name;
    request.parameters = whole.parameter_count;
    request.peak_activations = whole.peak_activations;
    table = memory::format_estimate(whole) + "\n";
    json = memory::estimate_to_json(whole);
  }
  if (!options.json) return table + format_stages(request);
  json.update(stages_to_json(request));
  return json.dump(2) + "\n";
}

}  // namespace ultra::zero
