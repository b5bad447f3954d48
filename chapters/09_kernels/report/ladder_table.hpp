#pragma once
/// @file
/// Ladders and what their rungs did, as text. Tables are made row by row, so that a program shows
/// each rung when it is done.

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "chapters/09_kernels/ladder.hpp"
#include "chapters/09_kernels/report/ceiling.hpp"
#include "chapters/09_kernels/rung_run.hpp"

namespace ultra::ladders {

/// @brief All ladders with their rungs: name, idea, file, exercise, where they run.
[[nodiscard]] std::string format_list(std::span<const std::unique_ptr<Ladder>> ladders);

/// @brief What comes above a table: the computation, the problem, what it costs at least.
[[nodiscard]] std::string format_problem(const Ladder& ladder, const RunRequest& request);

/// @brief The head of a table of counters.
[[nodiscard]] std::string emulated_head();
/// @brief A rung's row in it. No times: the emulator's say nothing about a GPU.
[[nodiscard]] std::string emulated_row(const RungRun& run, const Cost& cost);

/// @brief The head of a table of times.
/// @param ceiling  null where there is none.
[[nodiscard]] std::string gpu_head(Limit limit, std::string_view device, int repetitions,
                                   const Ceiling* ceiling, const std::string& why_no_ceiling);
/// @brief A rung's row in it.
/// @param ceiling_work  Ceiling::work(); 0 where there is none.
[[nodiscard]] std::string gpu_row(const RungRun& run, Limit limit, const Cost& cost,
                                  double ceiling_work);

/// @brief What comes below a table: what is wrong, and the idea of each rung.
[[nodiscard]] std::string format_notes(std::span<const RungRun> runs);

/// @brief What was counted in a rung: its launches, its lines, its sums under Nsight Compute's
/// names.
[[nodiscard]] std::string format_counters(const RungRun& run);

/// @brief The command line that makes Nsight Compute measure on a GPU what the emulator counts.
/// @param kernel  what --kernel says.
/// @param sizes   what --size says; empty for none.
[[nodiscard]] std::string ncu_command(const std::string& kernel, const std::string& sizes);

}  // namespace ultra::ladders
