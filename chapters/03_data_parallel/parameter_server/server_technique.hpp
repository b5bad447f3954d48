#pragma once
/// @file
/// Parameter servers as a program: ranks besides the replicas that keep the weights.
///
/// | part of training          | becomes                                              | where                     |
/// |---------------------------|------------------------------------------------------|---------------------------|
/// | K of the ranks            | servers: they run no step, but update slices         | sync_server, async_server |
/// | the exchange of gradients | pushes to the servers, pulls of the new weights      | push_pull                 |
/// | the optimizer             | the servers'                                         | parameter_server          |

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "chapters/03_data_parallel/parameter_server/server_settings.hpp"
#include "common/comm/communicator.hpp"
#include "common/tensor/dtype.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/options/comm_options.hpp"
#include "common/train/report/metrics.hpp"
#include "common/train/step.hpp"

namespace ultra::data_parallel {

/// @brief Which replica is slow, and by how much.
struct Straggler {
  int replica = 0;                        ///< its rank among the replicas
  std::chrono::duration<double> delay{};  ///< how much longer each of its steps takes
  bool operator==(const Straggler&) const = default;
};

/// @brief An observer by which one replica sleeps before every step.
/// @param dp  the replicas.
[[nodiscard]] std::unique_ptr<train::StepObserver> make_straggler(const Straggler& straggler,
                                                                  const Communicator& dp);

/// @brief How many replicas and servers there are, and how they work together.
struct ServerOptions {
  std::optional<std::size_t> dp;         ///< --dp; absent: 1, or as many as the ranks allow
  std::size_t servers = 1;               ///< --servers, further ranks
  bool asynchronous = false;             ///< --async
  std::optional<std::size_t> staleness;  ///< --staleness; absent: 2
  Priority priority = Priority::kNone;   ///< --priority
  std::optional<double> slice_kb;        ///< --slice-kb; absent: kSliceKb
  std::string straggler;                 ///< --straggler R:MILLISECONDS; empty: nobody

  /// What --slice-kb is unless it is given: it cuts the large matrices of the default model in two.
  static constexpr double kSliceKb = 100;

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the values, and that no flag is given without the one that gives it a meaning.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate() const;

  /// @brief Makes the run one of replicas and servers.
  /// @throws ConfigError when --ranks or mpirun says something else, or leaves no rank for a replica.
  void resolve_ranks(train::CommOptions& comm) const;

  /// @brief Replicas in a world of so many ranks.
  [[nodiscard]] int replicas(int ranks) const;

  /// @brief Checks that the straggler is one of the replicas.
  /// @throws ConfigError with the numbers.
  void expect_straggler_among(int replicas) const;

  /// @brief What replicas and servers agree on; after validate().
  [[nodiscard]] ServerSettings settings(DType dtype) const;

  /// @brief The slow replica; nothing when there is none.
  /// @throws ConfigError when the text names none.
  [[nodiscard]] std::optional<Straggler> slow_replica() const;

  /// @brief These flags for the metrics file.
  [[nodiscard]] train::ExtraConfig config() const;
};

/// @brief The flags of parameter servers, and what is a replica's of a training.
[[nodiscard]] std::unique_ptr<train::Technique> parameter_servers();

/// @brief Makes a rank's worker, a replica's or a server's, in a program with parameter_servers().
/// Collective over the world.
[[nodiscard]] std::unique_ptr<train::Worker> worker_with_servers(const train::Setup& setup,
                                                                 const train::RunContext& context);

}  // namespace ultra::data_parallel
