#pragma once
/// @file
/// A rung's run as JSON, for notebooks and scripts: one line per rung in the file of --metrics.

#include "chapters/09_kernels/ladder.hpp"
#include "chapters/09_kernels/report/ceiling.hpp"
#include "chapters/09_kernels/rung_run.hpp"
#include "common/base/json.hpp"

namespace ultra::ladders {

/// @brief What a rung did.
///
/// Always: ladder, rung, name, idea, file, exercise, sizes {name: extent}, seed, side ("emulator"
/// or "gpu"), status (right, wrong, faulty, not_written, not_run), right, message, operations,
/// least_bytes; when it was run: worst_error (in tolerances; null when infinite), compared
/// (outputs). In the emulator: launches [{kernel, grid, block}], moved_bytes, totals {kind: sums},
/// sites [{file, line, kind, size, sums}], metrics {Nsight Compute's name: value}; sums are
/// requests, lanes, sectors, bytes, wavefronts, ideal_wavefronts, divergent. On a GPU, when it was
/// timed: seconds [], median_seconds, and beside a ceiling: ceiling {name, work, seconds,
/// median_seconds}, of_ceiling.
[[nodiscard]] Json to_json(const Ladder& ladder, const RunRequest& request, const RungRun& run,
                           const Ceiling* ceiling);

}  // namespace ultra::ladders
