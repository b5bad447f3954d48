#include "chapters/10_mixed_precision/options/what_goes_together.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <variant>

#include "common/base/errors.hpp"

namespace ultra::mixed_precision {
namespace {

/// A flag of another technique, by its name in the metrics' config.
struct Conflict {
  std::string_view name;      ///< "compress"
  std::string_view harmless;  ///< the value that does not matter; empty: every value does
  std::string_view flag;      ///< "--compress"
  std::string_view why;       ///< and what to do
};

constexpr Conflict kOfTwoBytes[] = {
    {"compress", "none", "--compress",
     "its messages are made of f32 gradients, and it sends fewer bytes than bf16 does. Leave one "
     "of the two out."},
    {"sync", "all-reduce", "--sync parameter-server",
     "its servers keep weights and update them in one type. Leave one of the two out."},
    {"zero_plus_plus", "none", "--zero++",
     "it quantises f32 weights and gradients. Leave one of the two out."}};

std::string value_of(const train::ExtraConfig& config, std::string_view name) {
  for (const auto& [key, value] : config) {
    if (key != name) continue;
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    return "?";
  }
  return {};
}

[[noreturn]] void refuse(std::string_view flag, const PrecisionOptions& options,
                         std::string_view why) {
  throw ConfigError(fmt::format("{} does not go together with --precision {}: {}", flag,
                                to_string(options.recipe), why));
}

}  // namespace

void expect_goes_together(const train::Setup& setup, const PrecisionOptions& options) {
  const train::ExtraConfig config = setup.config();
  const std::string offload = value_of(config, "offload");
  if (options.moments != MomentFormat::kF32 && !offload.empty()) {
    throw ConfigError(
        "--optimizer-state does not go together with --offload: moments outside the device are "
        "kept in f32. Leave one of the two out.");
  }
  if (options.moments != MomentFormat::kF32 && setup.train.device != DeviceKind::kCpu) {
    throw ConfigError(
        "--optimizer-state does not go together with --device cuda: moments are stored in fewer "
        "bytes on the CPU only. Leave one of the two out.");
  }
  if (options.is_mixed()) {
    if (setup.train.device != DeviceKind::kCpu) {
      refuse("--device cuda", options,
             "operations on numbers of two bytes run on the CPU only. Leave one of the two out.");
    }
    for (const Conflict& conflict : kOfTwoBytes) {
      const std::string value = value_of(config, conflict.name);
      if (value.empty() || value == conflict.harmless) continue;
      refuse(conflict.flag, options, conflict.why);
    }
    if (offload == "optimizer+params") {
      refuse("--offload optimizer+params", options,
             "weights that are offloaded have no master weights beside them. Use --offload "
             "optimizer.");
    }
  }
  if (options.scaling() == LossScaling::kNone) return;
  if (value_of(config, "sync") == "parameter-server") {
    throw ConfigError(
        "--loss-scale does not go together with --sync parameter-server: servers update without a "
        "norm of all gradients, which would say whether one overflowed. Leave one of the two out.");
  }
  if (value_of(config, "schedule").starts_with("pipedream")) {
    throw ConfigError(
        "--loss-scale does not go together with --schedule pipedream-async: its stages update "
        "before anybody knows whether a gradient overflowed. Use --loss-scale none, or another "
        "schedule.");
  }
}

}  // namespace ultra::mixed_precision
