#include "chapters/04_zero/offload/offload_options.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/storage/storage.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::zero {
namespace {

constexpr std::string_view kMemory = "memory";
constexpr std::string_view kFile = "file:";

const std::vector<train::Choice<Offload>> kOffloads = {
    {"none", Offload::kNone},
    {"optimizer", Offload::kOptimizer},
    {"optimizer+params", Offload::kOptimizerAndParameters}};

}  // namespace

std::unique_ptr<storage::AsyncFile> open_storage(const OffloadSettings& settings,
                                                 std::uint64_t bytes) {
  if (settings.open) return settings.open(bytes);
  auto file = settings.folder.empty() ? storage::host_memory(bytes)
                                      : storage::open_scratch_file(settings.folder, bytes);
  if (!settings.gigabytes_per_second) return file;
  return storage::paced(std::move(file), *settings.gigabytes_per_second);
}

void OffloadOptions::add_to(CLI::App& app) {
  const char* group = "Offloading";
  train::add_choice(app, "--offload", what, kOffloads, group,
                    "what leaves the device's memory, with --zero 1, 2 or 3: none, the optimizer's "
                    "moments, or with --zero 3 optimizer+params, the weights too");
  const train::Flags flags(app, group);
  flags.add("--offload-to", to,
            "memory: the host's; file:DIR: a file without a name in this folder, one per rank "
            "[memory]");
  flags.add("--offload-gbps", gbps, "slow that storage to so many 1e9 bytes per second, each way",
            {1e-6, 1e6});
}

void OffloadOptions::validate(ZeroStage stage) const {
  if (what == Offload::kNone) {
    const char* useless = to ? "--offload-to" : gbps ? "--offload-gbps" : nullptr;
    if (useless == nullptr) return;
    throw ConfigError(fmt::format("{} has no meaning without --offload.", useless));
  }
  if (stage == ZeroStage::kNone) {
    throw ConfigError("--offload has no meaning without --zero 1, 2 or 3.");
  }
  train::reject_conflicts(conflicts(stage, ""));
  if (to && *to != kMemory && (!to->starts_with(kFile) || to->size() == kFile.size())) {
    throw ConfigError(
        fmt::format("--offload-to is {}. It must be memory or file:DIR.", in_quotes(*to)));
  }
}

std::vector<train::Conflict> OffloadOptions::conflicts(ZeroStage stage,
                                                       const std::string& plus_plus) const {
  const bool parameters = what == Offload::kOptimizerAndParameters;
  const bool whole = stage == ZeroStage::kOptimizer || stage == ZeroStage::kGradients;
  const std::string some = whole ? fmt::format("--zero {}", number_of(stage)) : "--zero 1 or 2";
  return {{.first = "--offload optimizer+params",
           .second = some,
           .reason = "every rank keeps all weights there. Use --zero 3, or --offload optimizer.",
           .broken = parameters && whole},
          {.first = "--offload optimizer+params",
           .second = "--zero++",
           .reason = "its units expect their shards on the device. Use --offload optimizer, or "
                     "leave out --zero++.",
           .broken = parameters && !plus_plus.empty()}};
}

OffloadSettings OffloadOptions::settings() const {
  OffloadSettings settings;
  settings.what = what;
  if (to && to->starts_with(kFile)) settings.folder = to->substr(kFile.size());
  settings.gigabytes_per_second = gbps;
  return settings;
}

train::ExtraConfig OffloadOptions::config() const {
  train::ExtraConfig config;
  if (what == Offload::kNone) return config;
  const bool params = what == Offload::kOptimizerAndParameters;
  config.emplace_back("offload", std::string(params ? "optimizer+params" : "optimizer"));
  config.emplace_back("offload_to", to.value_or(std::string(kMemory)));
  if (!settings().folder.empty()) {
    config.emplace_back("offload_backend", std::string(to_string(storage::file_backend())));
  }
  if (gbps) config.emplace_back("offload_gbps", *gbps);
  return config;
}

}  // namespace ultra::zero
