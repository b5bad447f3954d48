#pragma once
/// @file
/// `02_collectives --simulate`: algorithms against each other on a machine that is not here.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "chapters/02_collectives/simulator/link_simulator.hpp"
#include "chapters/02_collectives/simulator/topology.hpp"
#include "common/base/json.hpp"

namespace ultra::collectives {

/// Most steps of all ranks together that a run may take: their memory is 16 bytes each.
inline constexpr std::size_t kMaxSimulatedSteps = 60'000'000;

/// Most messages of a run that can be listed one by one.
inline constexpr std::size_t kMaxListedMessages = 200'000;

/// @brief A question to the simulator.
struct SimulationRequest {
  Topology topology;                    ///< the machine
  OpKind op = OpKind::kAllReduce;       ///< a collective
  std::vector<std::string> algorithms;  ///< names from algorithms(op); empty: all
  std::vector<std::size_t> sizes;       ///< bytes of the whole array, ascending
  std::size_t element_bytes = 4;        ///< bytes of one element
  Record record = Record::kTotals;      ///< kMessages: list them in the report

  /// @brief Checks that there is something to simulate.
  /// @throws ConfigError naming the flag, its value and what would work.
  void validate() const;
};

/// @brief One algorithm at one size.
struct SimulatedRun {
  std::string algorithm;                      ///< its name
  std::size_t bytes = 0;                      ///< of the whole array; a whole number of elements
  SimulationResult result;                    ///< what the simulation found
  std::optional<double> closed_form_seconds;  ///< by closed_form(), where there is one
  std::vector<comm::Schedule> schedules;      ///< of each rank, if messages are listed
};

/// @brief An algorithm that was left out, at one size or all.
struct SkippedRun {
  std::string algorithm;  ///< its name
  std::size_t bytes = 0;  ///< the size
  std::string reason;     ///< one sentence

  bool operator==(const SkippedRun&) const = default;
};

/// @brief Where the fastest algorithm changes.
struct Crossover {
  double bytes = 0.0;  ///< where straight lines between the simulated sizes cross
  std::string below;   ///< the fastest for smaller arrays
  std::string above;   ///< the fastest for larger arrays
};

/// @brief The answer.
struct SimulationReport {
  SimulationRequest request;          ///< what was asked
  std::vector<SimulatedRun> runs;     ///< by size, then in the order of the table
  std::vector<SkippedRun> skipped;    ///< in the same order
  std::vector<Crossover> crossovers;  ///< by size

  /// @brief The run of an algorithm at a size; nullptr when there is none.
  [[nodiscard]] const SimulatedRun* find(const std::string& algorithm, std::size_t bytes) const;
  /// @brief The fastest run of that size, the first of those that are equal but for rounding;
  /// nullptr when there is none.
  [[nodiscard]] const SimulatedRun* fastest(std::size_t bytes) const;
};

/// @brief Simulates every algorithm at every size.
///
/// Sizes are rounded up to whole elements, and for all_to_all to equal parts for all ranks. The root
/// is rank 0. An algorithm that does not suit is left out, with the reason.
/// @throws ConfigError when the request is not valid, or no algorithm is left.
[[nodiscard]] SimulationReport simulate_collective(const SimulationRequest& request);

/// @brief The report as lines for the terminal: time, algorithm and bus bandwidth (GB/s = 1e9 bytes
/// per second), what crosses the busiest NIC, and the fastest of each size.
[[nodiscard]] std::string format_simulation(const SimulationReport& report);

/// @brief The report as a JSON object: seconds, bytes, bytes per second; with the published
/// bandwidths beside it, and the messages if they were asked for.
[[nodiscard]] Json simulation_to_json(const SimulationReport& report);

}  // namespace ultra::collectives
