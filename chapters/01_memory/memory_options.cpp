#include "chapters/01_memory/memory_options.hpp"

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "common/base/errors.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::memory {
namespace {

/// More than a model has.
constexpr std::size_t kMostBlocks = 1'000'000;

}  // namespace

void MemoryOptions::add_to(CLI::App& app) {
  const train::Flags flags(app, "Memory");
  flags.add_parsed(
      "--recompute", [this](const std::string& text) { recompute.mode = parse_recompute(text); },
      "activations to compute again: none, selective or full", "none");
  flags.add("--recompute-every", recompute.recompute_every, "blocks per group of --recompute full",
            {1, kMostBlocks});

  const train::Flags estimates(app, "Estimate");
  estimates.add("--estimate", estimate,
                "print a model's memory by closed form instead of training: a known model's name, "
                "or 'custom' for the model that the flags describe");
  estimates.add_parsed(
      "--precision",
      [this](const std::string& text) {
        precision = parse_precision(text);
        precision_given_ = true;
      },
      "fp64, fp32, bf16-mixed or bf16-mixed-fp32grads", "bf16-mixed");
  estimates.add_switch("--json", json, "print the estimate as JSON");
}

void MemoryOptions::validate() const {
  recompute.validate();
  if (estimates()) return;
  if (json) throw ConfigError("--json needs --estimate MODEL. For training use --metrics FILE.");
  if (precision_given_) {
    throw ConfigError("--precision needs --estimate MODEL. For training use --dtype f32 or f64.");
  }
}

EstimateRequest MemoryOptions::request(const train::TrainOptions& options) const {
  return {.shape = shape_for_estimate(estimate, options.model),
          .batch = {.size = options.micro_batch, .seq_len = options.model.max_seq_len},
          .precision = precision,
          .recompute = recompute};
}

std::string MemoryOptions::answer(const train::TrainOptions& options) const {
  const MemoryEstimate found = estimate_memory(request(options));
  return json ? estimate_to_json(found).dump(2) + "\n" : format_estimate(found);
}

train::ExtraConfig MemoryOptions::config() const {
  return {{"recompute", std::string(to_string(recompute.mode))},
          {"recompute_every", recompute.recompute_every}};
}

}  // namespace ultra::memory
