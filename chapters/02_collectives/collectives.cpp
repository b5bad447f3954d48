#include "chapters/02_collectives/collectives.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "chapters/02_collectives/cost/exchange_price.hpp"
#include "chapters/02_collectives/replicated_training.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::collectives {
namespace {

constexpr std::size_t kMostSizes = 100;
constexpr const char* kSizesHelp = "Write for example 1KB:1GB, 1KB:1GB:2 or 4KB,1MB.";

std::vector<std::size_t> size_list(const std::string& text) {
  std::vector<std::size_t> sizes;
  for (const std::string_view part : split(text, ',')) {
    sizes.push_back(parse_bytes(std::string(part)));
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

double growth_factor(std::string_view text) {
  const std::optional<double> factor = parse_number<double>(text);
  if (!factor || !(*factor > 1.0) || !std::isfinite(*factor)) {
    throw ConfigError(fmt::format(
        "--simulate-sizes: the factor between sizes must be above 1, found {}.", in_quotes(text)));
  }
  return *factor;
}

/// first, first * factor, ... up to last.
std::vector<std::size_t> size_range(const std::string& text) {
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() > 3) {
    throw ConfigError(
        fmt::format("--simulate-sizes {} has too many parts. {}", in_quotes(text), kSizesHelp));
  }
  const std::size_t first = parse_bytes(std::string(parts[0]));
  const std::size_t last = parse_bytes(std::string(parts[1]));
  const double factor = parts.size() == 3 ? growth_factor(parts[2]) : 10.0;
  if (first == 0 || first > last) {
    throw ConfigError(
        fmt::format("--simulate-sizes {}: the first size must be above 0 and at most the last.",
                    in_quotes(text)));
  }
  std::vector<std::size_t> sizes;
  const auto limit = static_cast<double>(last) * (1.0 + 1e-12);
  for (auto size = static_cast<double>(first); size <= limit; size *= factor) {
    const auto bytes = static_cast<std::size_t>(std::llround(size));
    if (sizes.empty() || bytes > sizes.back()) sizes.push_back(bytes);
    if (sizes.size() > kMostSizes) break;
  }
  return sizes;
}

std::string known_machines() {
  std::string text;
  for (const TopologyPreset& preset : topology_presets()) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", preset.name);
  }
  return text;
}

}  // namespace

void SimulateOptions::add_to(CLI::App& app) {
  const train::Flags flags(app, "Simulation");
  flags.add("--simulate", simulate,
            fmt::format("time a collective on a machine that is not here instead of training: one "
                        "of {}, and changes to it: h100,nodes=64,nics=1,order=interleaved",
                        known_machines()));
  flags.add("--simulate-op", op, "the collective");
  flags.add("--simulate-algorithms", algorithms, "names, separated by commas; else all");
  flags.add("--simulate-sizes", sizes,
            "bytes of the array: FIRST:LAST, FIRST:LAST:FACTOR, or a list with commas");
  flags.add_switch("--simulate-json", json, "print the simulation as JSON");
  flags.add_switch("--simulate-messages", messages, "list every message in the JSON");
}

void SimulateOptions::validate() const {
  if (simulates()) {
    if (messages && !json) throw ConfigError("--simulate-messages needs --simulate-json.");
    return;
  }
  const SimulateOptions defaults;
  const std::array<std::pair<bool, const char*>, 5> given = {
      {{op != defaults.op, "--simulate-op"},
       {!algorithms.empty(), "--simulate-algorithms"},
       {sizes != defaults.sizes, "--simulate-sizes"},
       {json, "--simulate-json"},
       {messages, "--simulate-messages"}}};
  for (const auto& [is_given, flag] : given) {
    if (is_given) {
      throw ConfigError(
          fmt::format("{} needs --simulate MACHINE, for example --simulate h100,nodes=4.", flag));
    }
  }
}

SimulationRequest SimulateOptions::request() const {
  SimulationRequest request{
      .topology = parse_topology(simulate),
      .op = train::under_flag("--simulate-op", "", [&] { return parse_collective(op); }),
      .algorithms = algorithms,
      .sizes = parse_sizes(sizes),
      .record = messages ? Record::kMessages : Record::kTotals};
  request.validate();
  return request;
}

std::vector<std::size_t> parse_sizes(const std::string& text) {
  std::vector<std::size_t> sizes;
  train::under_flag("--simulate-sizes", "", [&] {
    sizes = text.find(':') == std::string::npos ? size_list(text) : size_range(text);
  });
  if (sizes.size() > kMostSizes) {
    throw ConfigError(
        fmt::format("--simulate-sizes {} has more than {} sizes.", in_quotes(text), kMostSizes));
  }
  return sizes;
}

void CollectivesOptions::add_to(CLI::App& app) {
  bench.add_to(app);
  simulate.add_to(app);
}

void CollectivesOptions::validate(DType dtype) const {
  bench.validate();
  simulate.validate();
  if (measures()) static_cast<void>(bench.request(dtype));
}

std::string CollectivesOptions::simulation() const {
  const SimulationReport report = simulate_collective(simulate.request());
  return simulate.json ? simulation_to_json(report).dump(2) + "\n" : format_simulation(report);
}

void CollectivesOptions::print_measurement(const train::Setup& setup) const {
  BenchRequest request = bench.request(setup.train.dtype);
  request.device = setup.train.device;
  RankOptions options = setup.comm.rank_options(std::make_shared<const BookAlgorithms>());
  options.checking = Checking::kOff;  // what is timed is the collective alone
  run_ranks(
      setup.comm.world_size(),
      [&](Communicator& world) {
        train::expect_same_command_line(world, setup.command_line);
        const auto rows = measure_collective(request, world);
        if (world.rank() != 0) return;
        fmt::print("{}", bench.json ? bench_to_json(request, world.size(), rows).dump(2) + "\n"
                                    : format_bench(request, world.size(), rows));
      },
      options);
}

void Collectives::add_flags(CLI::App& app, train::Setup& setup) {
  setup.comm.add_to(app);
  options_.add_to(app);
}

void Collectives::validate(train::Setup& setup) { options_.validate(setup.train.dtype); }

void Collectives::validate_training(const train::Setup& setup) const {
  if (setup.unequal_shares) return;
  expect_equal_shares(setup.train.global_batch, setup.train.micro_batch, setup.comm.world_size());
}

train::ExtraConfig Collectives::config(const train::Setup& setup) const {
  return setup.comm.config();
}

std::vector<train::Question> Collectives::questions() const {
  std::vector<train::Question> asked;
  if (options_.measures()) asked.push_back({"--op", train::Instead::kMeasurement});
  if (options_.simulates()) asked.push_back({"--simulate", train::Instead::kAnswer});
  return asked;
}

std::optional<std::string> Collectives::answer(const train::Setup&) const {
  if (!options_.simulates()) return {};
  return options_.simulation();
}

void Collectives::measure(const train::Setup& setup) const { options_.print_measurement(setup); }

std::shared_ptr<const comm::CollectiveAlgorithms> Collectives::algorithms(
    const train::AlgorithmNames& names) const {
  return std::make_shared<const BookAlgorithms>(BookOptions{.names = names, .tuning = {}});
}

replay::PriceExchange Collectives::exchange_price() const { return exchange_seconds; }

void Collectives::configure_step(train::StepConfig& step_config, const train::Setup&) const {
  step_config.share.offer(equal_share);
  step_config.exchange.offer([](const train::StatesScope& scope) {
    return sum_after_backward(scope.parameters, scope.data);
  });
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<Collectives>(); }

}  // namespace ultra::collectives
