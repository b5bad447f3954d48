#include "chapters/02_collectives/bench/collective_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "chapters/02_collectives/bench/collective_case.hpp"
#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "chapters/02_collectives/simulator/cost_model.hpp"
#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/base/numeric.hpp"
#include "common/base/units.hpp"
#include "common/tensor/synchronize.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::collectives {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kWarmups = 2;

Tensor one_number(double value) {
  const Tensor number = Tensor::empty(Device::cpu(), {1}, DType::kF64);
  number.fill(value);
  return number;
}

double over_all_ranks(const Communicator& world, double value, ReduceOp op) {
  const Tensor number = one_number(value);
  world.all_reduce(number, op).wait();
  return number.data<double>()[0];
}

Communicator using_algorithm(const Communicator& world, const BenchRequest& request,
                             const std::string& name) {
  if (name == kNativeName) return world.with_algorithms(nullptr);
  return world.with_algorithms(std::make_shared<BookAlgorithms>(
      BookOptions{.names = {{request.op, name}}, .tuning = request.tuning}));
}

/// Why this algorithm cannot take this size; empty when it can.
std::string why_not(const BenchRequest& request, const std::string& name, const Communicator& world,
                    std::size_t count) {
  if (name == kNativeName) return "";
  const NamedAlgorithm& algorithm = find_algorithm(request.op, name);
  const comm::Group group = comm::Group::all(world.rank(), world.size());
  return algorithm.why_not(CollectiveRequest::of(request.op, group, count, request.tuning));
}

/// Seconds of one run on the slowest rank: the median over the runs.
double measure(CollectiveCase& collective, const Device& device, const Communicator& comm,
               const Communicator& world, std::size_t iterations) {
  const Tensor seconds = Tensor::empty(Device::cpu(), {iterations}, DType::kF64);
  const std::span<double> times = seconds.span<double>();
  for (std::size_t i = 0; i < iterations + kWarmups; ++i) {
    throw_if_interrupted();
    collective.refresh();
    synchronize(device);
    world.barrier().wait();
    const auto begin = Clock::now();
    collective.run(comm);
    synchronize(device);
    const std::chrono::duration<double> elapsed = Clock::now() - begin;
    if (i >= kWarmups) times[i - kWarmups] = elapsed.count();
  }
  world.all_reduce(seconds, ReduceOp::kMax).wait();
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(iterations / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

BenchRow measure_row(const BenchRequest& request, const std::string& name,
                     const Communicator& world, const Device& device, std::size_t bytes) {
  const std::size_t element_bytes = size_of(request.dtype);
  const auto collective =
      make_case(request.op, world, ceil_div(bytes, element_bytes), request.dtype, device);
  BenchRow row{.algorithm = name, .bytes = collective->count() * element_bytes, .skipped = {}};
  row.skipped = why_not(request, name, world, collective->count());
  if (!row.skipped.empty()) return row;
  const Communicator comm = using_algorithm(world, request, name);
  if (request.check == CheckResults::kOn) {
    collective->refresh();
    collective->run(comm);
    row.wrong_elements = static_cast<std::size_t>(
        over_all_ranks(world, static_cast<double>(collective->wrong_elements()), ReduceOp::kSum));
  }
  row.seconds = measure(*collective, device, comm, world, request.iterations);
  return row;
}

std::string format_row(const BenchRequest& request, int ranks, const BenchRow& row) {
  const std::string start = fmt::format("{:>12} {:>22}", format_count(row.bytes), row.algorithm);
  if (!row.skipped.empty()) return fmt::format("{}  skipped: {}\n", start, row.skipped);
  const auto bytes = static_cast<double>(row.bytes);
  return fmt::format("{} {:>12.1f} {:>9.2f} {:>9.2f} {:>8}\n", start, row.seconds * 1e6,
                     algorithm_bandwidth(bytes, row.seconds) / 1e9,
                     bus_bandwidth(request.op, ranks, bytes, row.seconds) / 1e9,
                     request.check == CheckResults::kOn ? format_count(row.wrong_elements) : "-");
}

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

std::vector<BenchRow> measure_collective(const BenchRequest& request, const Communicator& world) {
  for (const std::string& name : request.algorithms) {
    if (name != kNativeName) static_cast<void>(find_algorithm(request.op, name));
  }
  const Device device = Device::create(request.device, world.rank());
  std::vector<BenchRow> rows;
  for (const std::size_t bytes : request.sizes) {
    for (const std::string& name : request.algorithms) {
      rows.push_back(measure_row(request, name, world, device, bytes));
    }
  }
  return rows;
}

std::string format_bench(const BenchRequest& request, int ranks,
                         const std::vector<BenchRow>& rows) {
  std::string text = fmt::format(
      "{} of {} on {} rank{}{}; bandwidths in GB/s of 1e9 bytes\n{:>12} {:>22} {:>12} {:>9} {:>9} "
      "{:>8}\n",
      to_string(request.op), to_string(request.dtype), ranks, ranks == 1 ? "" : "s",
      has_streams(request.device) ? fmt::format(" ({})", to_string(request.device)) : "", "bytes",
      "algorithm", "time (us)", "algbw", "busbw", "wrong");
  for (const BenchRow& row : rows) text += format_row(request, ranks, row);
  return text;
}

Json bench_to_json(const BenchRequest& request, int ranks, const std::vector<BenchRow>& rows) {
  Json list = Json::array();
  for (const BenchRow& row : rows) {
    Json entry = {{"algorithm", row.algorithm}, {"bytes", row.bytes}};
    if (row.skipped.empty()) {
      const auto bytes = static_cast<double>(row.bytes);
      entry["seconds"] = row.seconds;
      entry["algorithm_bandwidth"] = algorithm_bandwidth(bytes, row.seconds);
      entry["bus_bandwidth"] = bus_bandwidth(request.op, ranks, bytes, row.seconds);
      entry["wrong_elements"] = row.wrong_elements;
    } else {
      entry["skipped"] = row.skipped;
    }
    list.push_back(std::move(entry));
  }
  return {{"op", to_string(request.op)},
          {"dtype", to_string(request.dtype)},
          {"ranks", ranks},
          {"rows", std::move(list)}};
}

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
