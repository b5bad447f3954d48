#pragma once
/// @file
/// `02_collectives --op`: what each algorithm of a collective takes here, in the manner of
/// nccl-tests; and its flags.

#include <cstddef>
#include <string>
#include <vector>

#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "common/base/json.hpp"
#include "common/comm/communicator.hpp"
#include "common/train/options/cli_fwd.hpp"

namespace ultra::collectives {

/// The name under which the platform's own collective stands beside the algorithms.
inline constexpr std::string_view kNativeName = "native";

/// @brief Whether results are compared with what they must be.
enum class CheckResults { kOn, kOff };

/// @brief What to measure.
struct BenchRequest {
  OpKind op = OpKind::kAllReduce;          ///< a collective
  std::vector<std::string> algorithms;     ///< names from algorithms(op), or "native"
  std::vector<std::size_t> sizes;          ///< bytes of the whole array
  DType dtype = DType::kF32;               ///< of its elements
  DeviceKind device = DeviceKind::kCpu;    ///< where the array is
  std::size_t iterations = 20;             ///< measured runs
  CheckResults check = CheckResults::kOn;  ///< count wrong elements
  Tuning tuning{};                         ///< dials of the algorithms
};

/// @brief One algorithm at one size.
struct BenchRow {
  std::string algorithm;           ///< its name
  std::size_t bytes = 0;           ///< of the whole array
  double seconds = 0;              ///< of the slowest rank: median over the runs
  std::size_t wrong_elements = 0;  ///< on all ranks together
  std::string skipped;             ///< why it was not run; empty when it was

  bool operator==(const BenchRow&) const = default;
};

/// @brief Measures every algorithm at every size. Collective: every rank calls it.
/// @return the same rows on every rank.
/// @throws ConfigError for an algorithm that there is not.
[[nodiscard]] std::vector<BenchRow> measure_collective(const BenchRequest& request,
                                                       const Communicator& world);

/// @brief The rows as a table: size, time, algorithm and bus bandwidth (GB/s = 1e9 bytes per
/// second), wrong elements.
[[nodiscard]] std::string format_bench(const BenchRequest& request, int ranks,
                                       const std::vector<BenchRow>& rows);

/// @brief The rows as JSON: bytes, seconds, bytes per second.
[[nodiscard]] Json bench_to_json(const BenchRequest& request, int ranks,
                                 const std::vector<BenchRow>& rows);

/// @brief --op with its own flags.
struct BenchOptions {
  std::string op;                       ///< --op: a collective; empty means: train
  std::vector<std::string> algorithms;  ///< --algorithm; empty: all, and the platform's own
  std::string min_bytes = "1KB";        ///< --min-bytes: of the whole array
  std::string max_bytes = "16MB";       ///< --max-bytes
  std::size_t step_factor = 4;          ///< --step-factor: from one size to the next
  std::size_t iterations = 20;          ///< --iterations: measured runs of each
  std::string check = "on";             ///< --check: count wrong elements
  std::size_t ranks_per_node = 1;       ///< --ranks-per-node: for two-level
  bool json = false;                    ///< --op-json

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the flags against each other.
  /// @throws ConfigError when a flag is given that has no meaning without --op, or cannot work.
  void validate() const;

  /// @brief True when a measurement is asked for, not training.
  [[nodiscard]] bool measures() const { return !op.empty(); }

  /// @brief What to measure.
  /// @throws ConfigError for an operation, algorithm or size that there is not.
  [[nodiscard]] BenchRequest request(DType dtype) const;
};

}  // namespace ultra::collectives
