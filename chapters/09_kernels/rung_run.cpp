#include "chapters/09_kernels/rung_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/device/device_info.hpp"
#include "kernels/simt/error.hpp"

namespace ultra::ladders {
namespace {

constexpr double kBytesPerSector = 32;

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0.0;
  }
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Why this machine's first GPU cannot run a rung; empty when it can.
std::string gpu_refusal(const RungInfo& rung) {
  if (rung.needs == Needs::kAnything) {
    return "";
  }
  const std::vector<kernels::DeviceInfo> devices = kernels::list_devices();
  if (!devices.empty() && devices.front().compute_capability_major != 9) {
    return fmt::format("it needs a GPU of compute capability 9.0 (Hopper), found {}.{}",
                       devices.front().compute_capability_major,
                       devices.front().compute_capability_minor);
  }
  return "";
}

std::string why_not_run(const Ladder& ladder, const RungInfo& rung, const RunRequest& request) {
  const std::string refusal = ladder.refusal(rung.number, request.sizes, request.executor);
  return refusal.empty() && request.executor == simt::Executor::kGpu ? gpu_refusal(rung) : refusal;
}

std::string title(const LadderInfo& ladder, const RungInfo& rung) {
  return fmt::format("{}/{:02} {}", ladder.name, rung.number, rung.name);
}

}  // namespace

const char* name_of(Status status) {
  static constexpr std::array kNames{"right", "WRONG", "FAULTY", "not written", "not run"};
  return kNames.at(static_cast<std::size_t>(status));
}

double RungRun::median_seconds() const { return median(outcome.seconds); }
double RungRun::median_beside_seconds() const { return median(outcome.beside_seconds); }

double RungRun::moved_bytes() const {
  using simt::AccessKind;
  double sectors = 0;
  for (const AccessKind kind :
       {AccessKind::kGlobalLoad, AccessKind::kGlobalStore, AccessKind::kGlobalAtomic}) {
    sectors += static_cast<double>(outcome.report.total(kind).sectors);
  }
  return kBytesPerSector * sectors;
}

double of_ceiling(const RungRun& run, double work, double ceiling_work) {
  const double seconds = run.median_seconds();
  const double ceiling_seconds = run.median_beside_seconds();
  return seconds > 0 && ceiling_seconds > 0 && ceiling_work > 0
             ? (work / seconds) / (ceiling_work / ceiling_seconds)
             : 0.0;
}

RungRun run_rung(const Ladder& ladder, int rung, const RunRequest& request) {
  RungRun run{.rung = ladder.rung(rung), .message = {}, .not_written = {}, .outcome = {}};
  run.message = why_not_run(ladder, run.rung, request);
  if (!run.message.empty()) {
    return run;
  }
  try {
    run.outcome = ladder.run(rung, request);
    run.status = run.outcome.verdict.is_right() ? Status::kRight : Status::kWrong;
    if (run.status == Status::kWrong) {
      run.message = fmt::format("{}: {:.3g} times what rounding allows",
                                run.outcome.verdict.to_text(), run.outcome.verdict.worst());
    }
  } catch (const simt::SimtError& error) {
    run.status = Status::kFaulty;
    run.message = error.what();
    run.has_ended_gpu = request.executor == simt::Executor::kGpu;
  } catch (const NotWritten& error) {
    run.status = Status::kNotWritten;
    run.message = error.what();
    run.not_written = std::current_exception();
  }
  return run;
}

RungRun not_run_after(const RungRun& before, const Ladder& ladder, int rung) {
  const std::string& name = ladder.info().name;
  return {.rung = ladder.rung(rung),
          .message = fmt::format("an error of rung {} has ended this process's use of the GPU. "
                                 "Hint: run it alone: --kernel {}/{}",
                                 before.rung.number, name, rung),
          .has_ended_gpu = true};
}

void expect_success(const LadderInfo& ladder, const std::vector<RungRun>& runs) {
  for (const RungRun& run : runs) {
    if (run.status == Status::kWrong || run.status == Status::kFaulty) {
      throw RungFailed(fmt::format("{} is {}: {}", title(ladder, run.rung),
                                   run.status == Status::kWrong ? "wrong" : "faulty", run.message));
    }
  }
  for (const RungRun& run : runs) {
    if (run.status == Status::kNotWritten) {
      std::rethrow_exception(run.not_written);
    }
  }
}

}  // namespace ultra::ladders
