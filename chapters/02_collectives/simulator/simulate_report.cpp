#include "chapters/02_collectives/simulator/simulate_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "chapters/02_collectives/simulator/closed_form.hpp"
#include "chapters/02_collectives/simulator/cost_model.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/units.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::collectives {
namespace {

/// Sizes above this are a slip, and far above it not countable in elements.
constexpr std::size_t kLargestBytes = 1'000'000'000'000'000;

/// One algorithm at one size, not simulated yet.
class Attempt {
 public:
  Attempt(const SimulationRequest& request, const NamedAlgorithm& algorithm, std::size_t bytes)
      : request_(request),
        algorithm_(algorithm),
        bytes_(bytes),
        tuning_(tuning_for(algorithm.name, request.topology)) {}

  /// Why it is left out; empty when it is not.
  [[nodiscard]] std::string why_not() const {
    if (std::string reason = algorithm_.why_not(collective(0)); !reason.empty()) return reason;
    const std::size_t steps = estimated_steps();
    if (steps <= kMaxSimulatedSteps) return {};
    return fmt::format("it takes about {} steps, more than the {} that are simulated",
                       format_count(steps), format_count(kMaxSimulatedSteps));
  }

  [[nodiscard]] SimulatedRun run() const {
    SimulatedRun run;
    run.algorithm = algorithm_.name;
    run.bytes = bytes_;
    run.result = simulate(
        request_.topology, request_.element_bytes, [this](int rank) { return schedule(rank); },
        request_.record);
    const auto form = closed_form(request_.op, algorithm_.name, request_.topology, tuning_);
    if (form) run.closed_form_seconds = form->seconds(static_cast<double>(bytes_));
    if (request_.record == Record::kMessages) {
      for (int rank = 0; rank < request_.topology.ranks(); ++rank) {
        run.schedules.push_back(schedule(rank));
      }
    }
    return run;
  }

  /// Messages between ranks, of all ranks together. Schedules differ from rank to rank (leaves and
  /// inner nodes of a tree), so it is taken from the longest of a few.
  [[nodiscard]] std::size_t estimated_steps() const {
    const int ranks = request_.topology.ranks();
    std::size_t longest = 0;
    for (const int rank : {0, std::min(1, ranks - 1), ranks / 2}) {
      std::size_t steps = 0;
      for (const comm::Lane& lane : schedule(rank).lanes) {
        steps += static_cast<std::size_t>(
            std::count_if(lane.begin(), lane.end(), [rank](const comm::Round& step) {
              return step.send_to != rank || step.on_receive == comm::OnReceive::kReduce;
            }));
      }
      longest = std::max(longest, steps);
    }
    return longest * checked_cast<std::size_t>(ranks);
  }

 private:
  [[nodiscard]] CollectiveRequest collective(int rank) const {
    CollectiveRequest collective =
        CollectiveRequest::of(request_.op, comm::Group::all(rank, request_.topology.ranks()),
                              bytes_ / request_.element_bytes, tuning_);
    collective.element_bytes = request_.element_bytes;
    return collective;
  }

  [[nodiscard]] comm::Schedule schedule(int rank) const {
    return algorithm_.schedule(collective(rank));
  }

  const SimulationRequest& request_;
  const NamedAlgorithm& algorithm_;
  std::size_t bytes_;
  Tuning tuning_;
};

std::vector<const NamedAlgorithm*> chosen_algorithms(const SimulationRequest& request) {
  std::vector<const NamedAlgorithm*> chosen;
  if (request.algorithms.empty()) {
    for (const NamedAlgorithm& algorithm : algorithms(request.op)) chosen.push_back(&algorithm);
  }
  for (const std::string& name : request.algorithms) {
    chosen.push_back(&find_algorithm(request.op, name));
  }
  return chosen;
}

/// Whole elements, and whole parts of an all_to_all; without repetitions.
std::vector<std::size_t> rounded_sizes(const SimulationRequest& request) {
  if (request.op == OpKind::kBarrier) return {0};
  const auto ranks = checked_cast<std::size_t>(request.topology.ranks());
  std::vector<std::size_t> sizes;
  for (const std::size_t bytes : request.sizes) {
    std::size_t count = ceil_div(bytes, request.element_bytes);
    if (request.op == OpKind::kAllToAll) count = round_up(count, ranks);
    sizes.push_back(count * request.element_bytes);
  }
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// Where the straight lines through two algorithms' times at two sizes cross.
double crossing(const SimulatedRun& below_at_low, const SimulatedRun* above_at_low,
                const SimulatedRun* below_at_high, const SimulatedRun& above_at_high) {
  const auto low = static_cast<double>(below_at_low.bytes);
  const auto high = static_cast<double>(above_at_high.bytes);
  if (above_at_low == nullptr || below_at_high == nullptr) return high;
  const double lead_at_low = above_at_low->result.seconds - below_at_low.result.seconds;
  const double lead_at_high = above_at_high.result.seconds - below_at_high->result.seconds;
  return low + (high - low) * lead_at_low / (lead_at_low - lead_at_high);
}

std::vector<Crossover> find_crossovers(const SimulationReport& report) {
  std::vector<Crossover> crossovers;
  const std::vector<std::size_t>& sizes = report.request.sizes;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const SimulatedRun* low = report.fastest(sizes[i]);
    const SimulatedRun* high = report.fastest(sizes[i + 1]);
    if (low == nullptr || high == nullptr || low->algorithm == high->algorithm) continue;
    crossovers.push_back({.bytes = crossing(*low, report.find(high->algorithm, sizes[i]),
                                            report.find(low->algorithm, sizes[i + 1]), *high),
                          .below = low->algorithm,
                          .above = high->algorithm});
  }
  return crossovers;
}

std::size_t busiest_nic(const SimulationResult& result) {
  std::size_t busiest = 0;
  for (const NicTraffic& nic : result.nics) {
    busiest = std::max({busiest, nic.sent_bytes, nic.received_bytes});
  }
  return busiest;
}

std::string format_time(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  if (seconds < 1.0) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} s", seconds);
}

double bandwidth_gb(double bytes_per_second) { return bytes_per_second / 1e9; }

void format_run(const SimulationReport& report, const SimulatedRun& run, std::string& table) {
  const SimulationRequest& request = report.request;
  const double seconds = run.result.seconds;
  const auto bytes = static_cast<double>(run.bytes);
  const std::size_t nic = busiest_nic(run.result);
  fmt::format_to(std::back_inserter(table),
                 "  {:>9}  {:<22}{:>12}{:>10.2f}{:>10.2f}{:>12}{:>14}{}\n", format_bytes(run.bytes),
                 run.algorithm, format_time(seconds),
                 bandwidth_gb(algorithm_bandwidth(bytes, seconds)),
                 bandwidth_gb(bus_bandwidth(request.op, request.topology.ranks(), bytes, seconds)),
                 nic == 0 ? "-" : format_bytes(nic),
                 run.closed_form_seconds ? format_time(*run.closed_form_seconds) : "-",
                 report.fastest(run.bytes) == &run ? "  fastest" : "");
}

/// The reasons, one line per algorithm: the sizes that have it, if not all.
std::string format_skipped(const SimulationReport& report) {
  std::string text;
  for (std::size_t i = 0; i < report.skipped.size(); ++i) {
    const SkippedRun& skipped = report.skipped[i];
    const auto same_algorithm = [&](const SkippedRun& other) {
      return other.algorithm == skipped.algorithm;
    };
    if (std::any_of(report.skipped.begin(), report.skipped.begin() + static_cast<std::ptrdiff_t>(i),
                    same_algorithm)) {
      continue;
    }
    const auto times = std::count_if(report.skipped.begin(), report.skipped.end(), same_algorithm);
    const bool everywhere = static_cast<std::size_t>(times) == report.request.sizes.size();
    fmt::format_to(std::back_inserter(text), "  without {}{}: {}\n", skipped.algorithm,
                   everywhere ? "" : fmt::format(" from {} on", format_bytes(skipped.bytes)),
                   skipped.reason);
  }
  return text;
}

Json messages_to_json(const SimulatedRun& run) {
  Json messages = Json::array();
  for (const MessageRecord& record : run.result.records) {
    const auto step_of = [&](int rank, std::size_t index) -> const comm::Round& {
      const comm::Schedule& schedule = run.schedules[checked_cast<std::size_t>(rank)];
      return schedule.lanes[checked_cast<std::size_t>(record.lane)][index];
    };
    const comm::Round& send = step_of(record.from, record.send_step);
    const comm::Round& receive = step_of(record.to, record.receive_step);
    messages.push_back({{"from", record.from},
                        {"to", record.to},
                        {"lane", record.lane},
                        {"step", record.send_step},
                        {"bytes", record.bytes},
                        {"link", to_string(record.kind)},
                        {"start", record.start},
                        {"sent", record.sent},
                        {"arrival", record.arrival},
                        {"elements", {send.send.range.begin, send.send.range.end}},
                        {"into", {receive.receive.range.begin, receive.receive.range.end}},
                        {"reduces", receive.on_receive == comm::OnReceive::kReduce}});
  }
  return messages;
}

Json run_to_json(const SimulationReport& report, const SimulatedRun& run) {
  const SimulationRequest& request = report.request;
  const auto bytes = static_cast<double>(run.bytes);
  const double seconds = run.result.seconds;
  Json json = {
      {"algorithm", run.algorithm},
      {"bytes", run.bytes},
      {"seconds", seconds},
      {"algorithm_bandwidth", algorithm_bandwidth(bytes, seconds)},
      {"bus_bandwidth", bus_bandwidth(request.op, request.topology.ranks(), bytes, seconds)},
      {"closed_form_seconds", nullptr},
      {"messages", run.result.messages},
      {"sent_bytes",
       {{"intra", run.result.bytes_over(LinkKind::kIntra)},
        {"inter", run.result.bytes_over(LinkKind::kInter)},
        {"torus", run.result.bytes_over(LinkKind::kTorus)}}},
      {"busiest_nic_bytes", busiest_nic(run.result)},
      {"fastest", report.fastest(run.bytes) == &run}};
  if (run.closed_form_seconds) json["closed_form_seconds"] = *run.closed_form_seconds;
  if (request.record == Record::kMessages) {
    json["rank_seconds"] = run.result.rank_seconds;
    json["message_list"] = messages_to_json(run);
  }
  return json;
}

Json link_to_json(const replay::Link& link) {
  return {{"latency", link.latency}, {"bandwidth", link.bandwidth}};
}

Json topology_to_json(const Topology& topology) {
  return {{"ranks", topology.ranks()},
          {"nodes", topology.nodes},
          {"gpus_per_node", topology.gpus_per_node},
          {"nics_per_node", topology.nics_per_node},
          {"intra", link_to_json(topology.intra)},
          {"inter", link_to_json(topology.inter)},
          {"gamma", topology.gamma},
          {"order", to_string(topology.order)},
          {"torus", topology.torus}};
}

}  // namespace

void SimulationRequest::validate() const {
  topology.validate();
  const std::span<const OpKind> ops = collective_ops();
  if (std::find(ops.begin(), ops.end(), op) == ops.end()) {
    throw ConfigError(fmt::format("--simulate-op {} is no collective.", to_string(op)));
  }
  if (element_bytes == 0) throw ConfigError("an element has at least 1 byte.");
  if (sizes.empty()) throw ConfigError("--simulate-sizes is empty. Write for example 1KB:1GB.");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > kLargestBytes) {
      throw ConfigError(fmt::format("--simulate-sizes: {} is more than {}.", format_bytes(sizes[i]),
                                    format_bytes(kLargestBytes)));
    }
    if (i > 0 && sizes[i] <= sizes[i - 1]) {
      throw ConfigError(fmt::format("--simulate-sizes must ascend: {} comes after {}.",
                                    format_bytes(sizes[i]), format_bytes(sizes[i - 1])));
    }
  }
  train::under_flag("--simulate-algorithms", "",
                    [&] { static_cast<void>(chosen_algorithms(*this)); });
}

const SimulatedRun* SimulationReport::find(const std::string& algorithm, std::size_t bytes) const {
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const SimulatedRun& run) {
    return run.algorithm == algorithm && run.bytes == bytes;
  });
  return found == runs.end() ? nullptr : &*found;
}

const SimulatedRun* SimulationReport::fastest(std::size_t bytes) const {
  constexpr double kSame = 1.0 - 1e-12;  // sums of the same terms in another order
  const SimulatedRun* fastest = nullptr;
  for (const SimulatedRun& run : runs) {
    if (run.bytes != bytes) continue;
    if (fastest == nullptr || run.result.seconds < fastest->result.seconds * kSame) fastest = &run;
  }
  return fastest;
}

SimulationReport simulate_collective(const SimulationRequest& request) {
  request.validate();
  SimulationReport report;
  report.request = request;
  report.request.sizes = rounded_sizes(request);
  for (const std::size_t bytes : report.request.sizes) {
    for (const NamedAlgorithm* algorithm : chosen_algorithms(request)) {
      const Attempt attempt(report.request, *algorithm, bytes);
      if (std::string reason = attempt.why_not(); !reason.empty()) {
        report.skipped.push_back({std::string(algorithm->name), bytes, std::move(reason)});
        continue;
      }
      if (request.record == Record::kMessages && attempt.estimated_steps() > kMaxListedMessages) {
        throw ConfigError(fmt::format(
            "--simulate-messages lists at most {} messages: {} has more here. Simulate fewer "
            "ranks, or choose with --simulate-algorithms.",
            format_count(kMaxListedMessages), algorithm->name));
      }
      report.runs.push_back(attempt.run());
    }
  }
  if (report.runs.empty()) {
    throw ConfigError(fmt::format("--simulate: no algorithm is left. {}: {}.",
                                  report.skipped.front().algorithm, report.skipped.front().reason));
  }
  report.crossovers = find_crossovers(report);
  return report;
}

std::string format_simulation(const SimulationReport& report) {
  const SimulationRequest& request = report.request;
  std::string table =
      fmt::format("Simulation of {} on {}\n\n", to_string(request.op), request.topology.describe());
  fmt::format_to(std::back_inserter(table), "  {:>9}  {:<22}{:>12}{:>10}{:>10}{:>12}{:>14}\n",
                 "size", "algorithm", "time", "algbw", "busbw", "NIC bytes", "closed form");
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    if (i > 0 && report.runs[i].bytes != report.runs[i - 1].bytes) table += "\n";
    format_run(report, report.runs[i], table);
  }
  table += "\n";
  for (const Crossover& crossover : report.crossovers) {
    fmt::format_to(std::back_inserter(table), "  up to {}: {}; above: {}\n",
                   format_bytes(static_cast<std::uint64_t>(crossover.bytes)), crossover.below,
                   crossover.above);
  }
  return table + format_skipped(report) +
         "  algbw = size / time; busbw = algbw x the factor of nccl-tests; both in GB/s (1e9 "
         "bytes).\n";
}

Json simulation_to_json(const SimulationReport& report) {
  Json json = {{"op", to_string(report.request.op)},
               {"element_bytes", report.request.element_bytes},
               {"topology", topology_to_json(report.request.topology)},
               {"runs", Json::array()},
               {"skipped", Json::array()},
               {"crossovers", Json::array()}};
  for (const SimulatedRun& run : report.runs) json["runs"].push_back(run_to_json(report, run));
  for (const SkippedRun& skipped : report.skipped) {
    json["skipped"].push_back(
        {{"algorithm", skipped.algorithm}, {"bytes", skipped.bytes}, {"reason", skipped.reason}});
  }
  for (const Crossover& crossover : report.crossovers) {
    json["crossovers"].push_back(
        {{"bytes", crossover.bytes}, {"below", crossover.below}, {"above", crossover.above}});
  }
  json["published"] = published_to_json();
  return json;
}

}  // namespace ultra::collectives
