#pragma once
/// @file
/// The command-line options of parameter servers and of slow replicas.

#include <cstddef>
#include <optional>
#include <string>

#include "chapters/03_data_parallel/parameter_server/server_settings.hpp"
#include "chapters/03_data_parallel/parameter_server/straggler.hpp"
#include "common/tensor/dtype.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::data_parallel {

/// @brief Who brings the replicas' gradients together.
enum class Synchronization {
  kAllReduce,        ///< the replicas themselves
  kParameterServer,  ///< ranks beside them, which keep the weights
};

/// @brief Whether there are parameter servers, and how they work.
struct ServerOptions {
  Synchronization sync = Synchronization::kAllReduce;  ///< --sync
  std::optional<std::size_t> servers;                  ///< --servers; absent: 1
  bool asynchronous = false;                           ///< --async
  std::optional<std::size_t> staleness;                ///< --staleness; absent: 2
  std::optional<Priority> priority;                    ///< --priority; absent: none
  std::optional<double> slice_kb;                      ///< --slice-kb; absent: kSliceKb
  std::string straggler;  ///< --straggler R:MILLISECONDS; empty: nobody

  /// What --slice-kb is unless it is given: it cuts the large matrices of the default model in two.
  static constexpr double kSliceKb = 100;

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the values, and that no flag is given whose meaning another flag gives it.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate() const;

  /// @brief Checks that the straggler is one of the replicas.
  /// @throws ConfigError with the numbers.
  void expect_straggler_among(int replicas) const;

  /// @brief Ranks beside the replicas: 0 without --sync parameter-server.
  [[nodiscard]] std::size_t num_servers() const;

  /// @brief What replicas and servers agree on; after validate().
  [[nodiscard]] ServerSettings settings(DType dtype) const;

  /// @brief The slow replica; nothing when there is none.
  /// @throws ConfigError when the text is none.
  [[nodiscard]] std::optional<Straggler> slow_replica() const;

  /// @brief These flags for the metrics file.
  [[nodiscard]] train::ExtraConfig config() const;
};

}  // namespace ultra::data_parallel
