#pragma once
/// @file
/// The command-line options of programs that run on several ranks.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/comm/run_ranks.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::train {

/// @brief Whose collectives a run uses.
enum class Collectives {
  kOurs,    ///< written out, step by step, over send and recv
  kNative,  ///< the platform's own: shared memory under threads, MPI's under mpirun
};

/// @brief "ours" or "native".
[[nodiscard]] std::string_view to_string(Collectives collectives);

/// @brief Checks that one process can hold this many ranks as threads.
/// @param asked  what asks for them, for the message: "--ranks is 300".
/// @throws ConfigError when it cannot.
void expect_thread_ranks(std::size_t ranks, const std::string& asked);

/// @brief The number of ranks of a run.
/// @param asked     --ranks, if it was given; at least 1.
/// @param launched  launched_world_size().
/// @throws ConfigError when the two differ, or when one process cannot hold so many threads.
[[nodiscard]] int resolve_world_size(std::optional<std::size_t> asked, std::optional<int> launched);

/// @brief How many ranks, and how they communicate.
struct CommOptions {
  std::optional<std::size_t> ranks;  ///< --ranks; absent: 1, or what mpirun started
  std::optional<int> launched = launched_world_size();  ///< processes that mpirun started
  Collectives collectives = Collectives::kOurs;         ///< --collectives
  bool collectives_given = false;                       ///< whether the command line has it
  double timeout = 60;                                  ///< --timeout: seconds of one wait
  std::string link;                                     ///< --link: empty means as fast as it goes
  ultra::Progress progress = ultra::Progress::kThread;  ///< --progress
  Checking checking = Checking::kOn;                    ///< --check-collectives
  bool elsewhere = false;  ///< the ranks need not exist: there may be any number

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the values against each other and against mpirun.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate() const;

  /// @brief Number of ranks; after validate() it is legal.
  [[nodiscard]] int world_size() const;

  /// @brief These flags for run_ranks.
  /// @param ours  the algorithms of --collectives ours: a chapter's.
  [[nodiscard]] RankOptions rank_options(
      std::shared_ptr<const comm::CollectiveAlgorithms> ours) const;

  /// @brief These flags for the metrics file.
  [[nodiscard]] ExtraConfig config() const;
};

}  // namespace ultra::train
