// What mixed precision does not go together with: the flags of other techniques that take its flags'
// meaning away.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <variant>

#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/10_mixed_precision/mixed_precision.hpp"

namespace ultra::mixed_precision {
namespace {

std::string one_of_the_two(std::string_view reason) {
  return fmt::format("{} Leave one of the two out.", reason);
}

/// What the flags of all techniques ask for, by their names in the metrics' config.
class Asked {
 public:
  explicit Asked(const train::Setup& setup) : config_(setup.config()) {}

  /// The value of a flag; empty when it is not given.
  [[nodiscard]] std::string value_of(std::string_view name) const {
    for (const auto& [key, value] : config_) {
      if (key != name) continue;
      const auto* text = std::get_if<std::string>(&value);
      return text == nullptr ? "?" : *text;
    }
    return {};
  }

  /// Whether a flag is given with another value than this one, which does no harm.
  [[nodiscard]] bool has(std::string_view name, std::string_view harmless) const {
    const std::string value = value_of(name);
    return !value.empty() && value != harmless;
  }

 private:
  train::ExtraConfig config_;
};

/// Rows of one flag of this chapter.
class Rows {
 public:
  Rows(std::vector<train::Conflict>& all, std::string own, bool given)
      : all_(all), own_(std::move(own)), given_(given) {}

  void exclude(const char* flag, const std::string& reason, bool asked) {
    all_.push_back({.first = flag, .second = own_, .reason = reason, .broken = given_ && asked});
  }

 private:
  std::vector<train::Conflict>& all_;
  std::string own_;
  bool given_;
};

void exclude_from_types(Rows rows, const Asked& asked) {
  rows.exclude(
      "--compress",
      one_of_the_two("its messages are made of f32 gradients, and it sends fewer bytes than "
                     "bf16 does."),
      asked.has("compress", "none"));
  rows.exclude("--zero++", one_of_the_two("it quantises f32 weights and gradients."),
               asked.has("zero_plus_plus", "none"));
  rows.exclude("--offload optimizer+params",
               "weights that are offloaded have no master weights beside them. Use --offload "
               "optimizer.",
               asked.value_of("offload") == "optimizer+params");
}

void exclude_from_moments(Rows rows, const Asked& asked) {
  rows.exclude("--offload", one_of_the_two("moments outside the device are kept in f32."),
               !asked.value_of("offload").empty());
}

void exclude_from_rounded_loss(Rows rows, const train::Setup& setup) {
  rows.exclude(
      "--tp",
      one_of_the_two("the vocabulary's columns are on several ranks, which add up their sums "
                     "in f32."),
      setup.ranks_along(tensor_parallel::kAxis) > 1);
  rows.exclude("--head-z-loss", one_of_the_two("its log-sum-exps are sums in f32."),
               setup.train.head_z_loss > 0);
}

void exclude_from_rounded_softmax(Rows rows, const train::Setup& setup) {
  rows.exclude("--cp",
               one_of_the_two("the keys of a query are on several ranks, which merge their sums in "
                              "f32."),
               setup.ranks_along(context_parallel::kAxis) > 1);
}

train::Conflict sums_on_a_device(const train::Setup& setup, bool rounds_sums) {
  const bool on_device = has_streams(setup.train.device);
  return {.first = fmt::format("--device {}",
                               to_string(on_device ? setup.train.device : DeviceKind::kCuda)),
          .second = "--round-sums",
          .reason = "only code of the CPU rounds so often. Use --device cpu.",
          .broken = rounds_sums && on_device};
}

void exclude_from_scaling(Rows rows, const Asked& asked) {
  rows.exclude(
      "--compress",
      one_of_the_two("what a step leaves over for the next ones has that step's scale, and "
                     "after an overflow it would be no number in any of them."),
      asked.has("compress", "none"));
  rows.exclude("--schedule pipedream-async",
               "its stages update before anybody knows whether a gradient overflowed. Use "
               "--loss-scale none, or another schedule.",
               asked.value_of("schedule").starts_with("pipedream"));
}

}  // namespace

std::vector<train::Conflict> MixedPrecision::conflicts(const train::Setup& setup) const {
  const Asked asked(setup);
  std::vector<train::Conflict> all;
  const bool mixed = options_.is_mixed();
  exclude_from_types(
      {all,
       "--precision " + (mixed ? std::string(to_string(options_.recipe)) : "bf16, fp16 or fp8"),
       mixed},
      asked);
  exclude_from_moments(
      {all, "--optimizer-state bf16 or int8", options_.moments != MomentFormat::kF32}, asked);
  exclude_from_rounded_loss({all, "--round-sums loss", options_.rounded_sums.loss}, setup);
  exclude_from_rounded_softmax({all, "--round-sums softmax", options_.rounded_sums.softmax}, setup);
  const nn::LatentAttention& latent = setup.train.model.latent;
  all.push_back({.first = "--attention mla-absorbed",
                 .second = "--precision fp8",
                 .reason = "it multiplies heads by parts of a weight, and fp8 is for whole linear "
                           "layers. Use --attention mla.",
                 .broken = latent.on && latent.absorbed && options_.recipe == Recipe::kFp8});
  all.push_back(sums_on_a_device(setup, options_.rounded_sums.any()));
  exclude_from_scaling({all, "--loss-scale", options_.scaling() != LossScaling::kNone}, asked);
  return all;
}

std::vector<train::Conflict> MixedPrecision::conflicts_with_recording(const train::Setup&) const {
  const std::string numbers = "the host computes with the numbers, and there are none.";
  return {train::not_recorded("--rounding stochastic", numbers,
                              options_.rounding == Rounding::kStochastic),
          train::not_recorded("--optimizer-state int8", numbers,
                              options_.moments == MomentFormat::kInt8),
          train::not_recorded("--round-sums", numbers, options_.rounded_sums.any()),
          train::not_recorded("--count-updates", numbers, options_.counts_updates)};
}

}  // namespace ultra::mixed_precision
