#pragma once
/// @file
/// `02_collectives --op`: what each algorithm of a collective takes here, in the manner of
/// nccl-tests.

#include <cstddef>
#include <string>
#include <vector>

#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "common/base/json.hpp"
#include "common/comm/communicator.hpp"

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

}  // namespace ultra::collectives
