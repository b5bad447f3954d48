#pragma once
/// @file
/// Restriction: the layouts that somebody asks about, of all those there are.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "chapters/11_five_d/planner/layout/layout.hpp"
#include "common/train/options/cli_fwd.hpp"

namespace ultra::planner {

/// @brief A schedule, with any number of chunks unless one is given.
struct AskedSchedule {
  pipeline_parallel::ScheduleKind kind;    ///< which
  std::optional<std::size_t> chunks = {};  ///< of each rank; absent: any

  bool operator==(const AskedSchedule&) const = default;
};

/// @brief What a plan may choose from; of an empty list the search chooses by itself.
struct Restriction {
  std::vector<std::size_t> dp;                           ///< replicas
  std::vector<std::size_t> pp;                           ///< stages
  std::vector<std::size_t> cp;                           ///< ranks that share a sequence
  std::vector<std::size_t> tp;                           ///< ranks that share a matrix
  std::vector<std::size_t> ep;                           ///< ranks that hold the experts
  std::vector<std::size_t> micro_batch;                  ///< sequences
  std::vector<zero::ZeroStage> zero;                     ///< stages, in pipelines too
  std::vector<std::size_t> hybrid_shard;                 ///< ranks that share a copy of the states
  std::vector<AskedSchedule> schedules;                  ///< of pipelines
  std::vector<memory::Recompute> recompute;              ///< of blocks
  std::vector<context_parallel::ContextMethod> methods;  ///< of cp
  std::vector<bool> sequence_parallel;                   ///< of tp
  std::vector<Outermost> outermost;                      ///< of the ranks' order
  std::vector<AskedSchedule> without_schedules;          ///< none of these
  std::vector<zero::ZeroStage> without_zero;             ///< none of these stages
  bool without_offload = false;                          ///< all is on the device
  bool without_hybrid = false;                           ///< states are shared by all replicas

  /// @brief Adds the flags that a plan has in common with a training, under names of its own:
  /// "--plan-tp" is what "--tp" means beside --plan. They take lists. Body: options/restriction_flags.cpp.
  void add_to(CLI::App& app);
  /// @brief What is restricted, for a plan's heading: "tp 4, 8; zero 1; without zb-v"; or empty.
  [[nodiscard]] std::string str() const;

 private:
  std::vector<std::string> words_;  // as they were given
};

/// @brief The words of a command line that asks for a plan: "--tp 4,8" becomes "--plan-tp 4,8", and so do
/// the other flags that describe a layout, a model or a sequence. Others are left as they are.
/// Body: options/restriction_flags.cpp.
[[nodiscard]] std::vector<std::string> words_of_plan(std::vector<std::string> words);

/// @brief Whether a value is in a list, or the list is empty.
template <class T>
[[nodiscard]] bool allows(const std::vector<T>& asked, const T& value) {
  return asked.empty() || std::find(asked.begin(), asked.end(), value) != asked.end();
}

}  // namespace ultra::planner
