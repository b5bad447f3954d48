#include "chapters/02_collectives/bench/bench_options.hpp"

#include <fmt/format.h>

#include "common/base/errors.hpp"
#include "common/base/units.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::collectives {
namespace {

constexpr std::size_t kMostIterations = 1'000'000;
constexpr std::size_t kLargestArray = 1'000'000'000'000;

/// A flag with a size in bytes, which stays as it was written, for messages.
void add_size(const train::Flags& flags, const char* flag, std::string& size, const char* help) {
  flags.add_parsed(
      flag,
      [&size](const std::string& text) {
        static_cast<void>(parse_bytes(text));
        size = text;
      },
      help, size);
}

std::vector<std::size_t> sizes_between(std::size_t first, std::size_t last, std::size_t factor) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = first; size<last; size = size> last / factor ? last : size * factor) {
    sizes.push_back(size);
  }
  sizes.push_back(last);
  return sizes;
}

}  // namespace

void BenchOptions::add_to(CLI::App& app) {
  const train::Flags flags(app, "Measuring a collective");
  flags.add("--op", op, "time a collective on these ranks instead of training");
  flags.add("--algorithm", algorithms,
            "names, separated by commas, native among them; else all that there are");
  add_size(flags, "--min-bytes", min_bytes, "smallest array");
  add_size(flags, "--max-bytes", max_bytes, "largest array");
  flags.add("--step-factor", step_factor, "from one size to the next", {.least = 2});
  flags.add("--iterations", iterations, "measured runs of each", {1, kMostIterations});
  flags.add_one_of("--check", check, {"on", "off"}, "on: count wrong elements; off: do not");
  flags.add("--ranks-per-node", ranks_per_node, "ranks that share a node, for two-level",
            {1, train::kMostRanks});
  flags.add_switch("--op-json", json, "print the measurement as JSON");
}

void BenchOptions::validate() const {
  const BenchOptions defaults;
  const std::pair<bool, const char*> given[] = {
      {!algorithms.empty(), "--algorithm"},
      {min_bytes != defaults.min_bytes, "--min-bytes"},
      {max_bytes != defaults.max_bytes, "--max-bytes"},
      {step_factor != defaults.step_factor, "--step-factor"},
      {iterations != defaults.iterations, "--iterations"},
      {check != defaults.check, "--check"},
      {ranks_per_node != defaults.ranks_per_node, "--ranks-per-node"},
      {json, "--op-json"}};
  for (const auto& [is_given, flag] : given) {
    if (is_given && !measures()) {
      throw ConfigError(
          fmt::format("{} needs --op COLLECTIVE, for example --op all_reduce.", flag));
    }
  }
}

BenchRequest BenchOptions::request(DType dtype) const {
  const std::size_t first = parse_bytes(min_bytes);
  const std::size_t last = parse_bytes(max_bytes);
  if (first == 0 || first > last) {
    throw ConfigError(
        fmt::format("--min-bytes {} and --max-bytes {}: the first must be above 0 and at most the "
                    "second.",
                    min_bytes, max_bytes));
  }
  if (last > kLargestArray) {
    throw ConfigError(fmt::format("--max-bytes is {}. It must be at most {}.", max_bytes,
                                  format_bytes(kLargestArray)));
  }
  BenchRequest request{.op = train::under_flag("--op", "", [&] { return parse_collective(op); }),
                       .algorithms = algorithms,
                       .sizes = sizes_between(first, last, step_factor),
                       .dtype = dtype,
                       .iterations = iterations,
                       .check = check == "on" ? CheckResults::kOn : CheckResults::kOff};
  request.tuning.ranks_per_node = static_cast<int>(ranks_per_node);
  if (request.algorithms.empty()) {
    for (const NamedAlgorithm& algorithm : collectives::algorithms(request.op)) {
      request.algorithms.emplace_back(algorithm.name);
    }
    request.algorithms.emplace_back(kNativeName);
  }
  for (const std::string& name : request.algorithms) {
    if (name == kNativeName) continue;
    train::under_flag("--algorithm", "",
                      [&] { static_cast<void>(find_algorithm(request.op, name)); });
  }
  return request;
}

}  // namespace ultra::collectives
