#pragma once
/// @file
/// One rung that was run, whatever came of it.

#include <exception>
#include <string>
#include <vector>

#include "chapters/09_kernels/ladder.hpp"
#include "chapters/09_kernels/report/ceiling.hpp"
#include "common/base/errors.hpp"

namespace ultra::ladders {

/// @brief What became of a rung.
enum class Status {
  /// @brief Its outputs are right.
  kRight,
  /// @brief Its outputs are wrong.
  kWrong,
  /// @brief The emulator or the GPU stopped it: out of bounds, a race, a refused launch.
  kFaulty,
  /// @brief It is an exercise that nobody has written yet.
  kNotWritten,
  /// @brief It does not do these sizes, or not here.
  kNotRun,
};

/// @brief The name of a status, for tables: "right".
[[nodiscard]] const char* name_of(Status status);

/// @brief A rung that is wrong or faulty: a program that ran it ends with exit code 1.
class RungFailed : public InternalError {
 public:
  using InternalError::InternalError;
};

/// @brief A rung on a problem, and what came of it.
struct RungRun {
  /// @brief The rung.
  RungInfo rung;
  /// @brief What became of it.
  Status status = Status::kNotRun;
  /// @brief What is wrong, or why it was not run; empty when it is right.
  std::string message;
  /// @brief The stub's own exception when it is not written, else null.
  std::exception_ptr not_written = {};
  /// @brief What it gave; empty unless it is right or wrong.
  Outcome outcome = {};
  /// @brief Whether nothing of this process runs on the GPU any more: every later call reports the
  /// error of a kernel.
  bool has_ended_gpu = false;

  /// @brief Median of the timed repetitions; 0 without any.
  [[nodiscard]] double median_seconds() const;
  /// @brief Median of what was timed beside them; 0 without any.
  [[nodiscard]] double median_beside_seconds() const;
  /// @brief Bytes that the rung moved to and from global memory: 32 for each sector.
  [[nodiscard]] double moved_bytes() const;
};

/// @brief The rate of a rung's work over that of the ceiling's, which was timed beside it: 1 when
/// they are equal; 0 when nothing was timed.
[[nodiscard]] double of_ceiling(const RungRun& run, double work, double ceiling_work);

/// @brief Runs a rung; what it throws becomes its status.
[[nodiscard]] RungRun run_rung(const Ladder& ladder, int rung, const RunRequest& request);

/// @brief A rung that is not run because one before it has ended this process's use of the GPU.
[[nodiscard]] RungRun not_run_after(const RungRun& before, const Ladder& ladder, int rung);

/// @brief Throws for the worst of several rungs: RungFailed for one that is wrong or faulty, else
/// NotWritten for one that is not written.
/// @throws RungFailed
/// @throws NotWritten
void expect_success(const LadderInfo& ladder, const std::vector<RungRun>& runs);

}  // namespace ultra::ladders
