#include "chapters/09_kernels/report/ladder_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "chapters/09_kernels/selection.hpp"
#include "common/base/units.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;
using simt::Report;
using simt::Site;

constexpr const char* kEmulatedRow =
    "{:>2}  {:<22} {:>12} {:>8} {:>10} {:>12} {:>10} {:>10} {:>6}  {}\n";
constexpr const char* kGpuRow = "{:>2}  {:<22} {:>12} {:>10} {:>12} {:>10}  {}\n";

Site sum_of(const Report& report, std::initializer_list<AccessKind> kinds) {
  Site sum;
  for (const AccessKind kind : kinds) {
    const Site part = report.total(kind);
    sum.requests += part.requests;
    sum.sectors += part.sectors;
    sum.wavefronts += part.wavefronts;
    sum.ideal_wavefronts += part.ideal_wavefronts;
  }
  return sum;
}

bool has_outcome(const RungRun& run) {
  return run.status == Status::kRight || run.status == Status::kWrong;
}

const char* limit_in_words(Limit limit) {
  switch (limit) {
    case Limit::kMemory:
      return "the bandwidth of memory";
    case Limit::kFp32:
      return "fp32 arithmetic on CUDA cores";
    case Limit::kBf16:
      break;
  }
  return "bf16 arithmetic on tensor cores";
}

std::string format_rung(const RungInfo& rung) {
  return fmt::format("  {:>2}  {:<22} {}\n      {:<22} {}{}{}\n", rung.number, rung.name, rung.idea,
                     "", rung.file,
                     rung.exercise.empty() ? "" : fmt::format(", exercise {}", rung.exercise),
                     rung.needs == Needs::kHopper ? ", on GPUs of Hopper only" : "");
}

std::string to_text(const simt::Extents& extents) {
  return fmt::format("{}x{}x{}", extents.x, extents.y, extents.z);
}

}  // namespace

std::string format_list(std::span<const std::unique_ptr<Ladder>> ladders) {
  std::string text;
  for (const std::unique_ptr<Ladder>& ladder : ladders) {
    const LadderInfo& info = ladder->info();
    text += fmt::format("{}: {}\n  sizes: {} (on a GPU: {}); limited by {}\n", info.name,
                        info.title, to_text(info, ladder->default_sizes(simt::Executor::kChecked)),
                        to_text(info, ladder->default_sizes(simt::Executor::kGpu)),
                        limit_in_words(info.limit));
    for (const RungInfo& rung : ladder->rungs()) {
      text += format_rung(rung);
    }
    text += "\n";
  }
  return text + "Run one: --kernel LADDER, --kernel LADDER/NUMBER or --kernel LADDER/NAME\n";
}

std::string format_problem(const Ladder& ladder, const RunRequest& request) {
  const Cost cost = ladder.cost(request.sizes, request.seed);
  return fmt::format("{}: {}\n{}; at least {} of memory traffic and {} operations\n",
                     ladder.info().name, ladder.info().title, to_text(ladder.info(), request.sizes),
                     format_bytes(static_cast<std::uint64_t>(cost.least_bytes)),
                     format_count(static_cast<std::uint64_t>(cost.operations)));
}

std::string emulated_head() {
  std::string text =
      "In the emulator: what is counted, and no times, for its own say nothing of a GPU.\n\n";
  text += fmt::format(kEmulatedRow, "", "", "global", "sectors", "bytes", "shared", "wavefronts",
                      "bank", "active", "");
  text += fmt::format(kEmulatedRow, "#", "rung", "requests", "/request", "/ least", "requests",
                      "/request", "conflicts", "lanes", "result");
  return text;
}

std::string emulated_row(const RungRun& run, const Cost& cost) {
  if (!has_outcome(run)) {
    return fmt::format(kEmulatedRow, run.rung.number, run.rung.name, "-", "-", "-", "-", "-", "-",
                       "-", name_of(run.status));
  }
  const Report& report = run.outcome.report;
  const Site global = sum_of(
      report, {AccessKind::kGlobalLoad, AccessKind::kGlobalStore, AccessKind::kGlobalAtomic});
  const Site shared = sum_of(
      report, {AccessKind::kSharedLoad, AccessKind::kSharedStore, AccessKind::kSharedAtomic});
  const bool has_shared = shared.requests > 0;
  return fmt::format(kEmulatedRow, run.rung.number, run.rung.name, format_count(global.requests),
                     fmt::format("{:.2f}", global.sectors_per_request()),
                     fmt::format("{:.2f}", run.moved_bytes() / cost.least_bytes),
                     format_count(shared.requests),
                     has_shared ? fmt::format("{:.2f}", shared.wavefronts_per_request()) : "-",
                     has_shared ? format_count(shared.wavefronts - shared.ideal_wavefronts) : "-",
                     fmt::format("{:.1f}", report.active_lanes()), name_of(run.status));
}

std::string gpu_head(Limit limit, std::string_view device, int repetitions, const Ceiling* ceiling,
                     const std::string& why_no_ceiling) {
  const std::string beside =
      ceiling != nullptr
          ? fmt::format("the ceiling, timed in turn with each rung: {}", ceiling->name())
          : fmt::format("no ceiling: {}", why_no_ceiling);
  const char* unit = rate_unit(limit).name;
  return fmt::format("On {}: medians of up to {}, second-level cache emptied before each;\n{}.\n\n",
                     device, repetitions, beside) +
         fmt::format(kGpuRow, "#", "rung", "ms", unit, "ceiling", "of it", "result");
}

std::string gpu_row(const RungRun& run, Limit limit, const Cost& cost, double ceiling_work) {
  const double seconds = run.median_seconds();
  if (!has_outcome(run) || seconds == 0) {
    return fmt::format(kGpuRow, run.rung.number, run.rung.name, "-", "-", "-", "-",
                       name_of(run.status));
  }
  const double scale = rate_unit(limit).scale;
  const double work = limited_work(limit, cost);
  const double ceiling_seconds = run.median_beside_seconds();
  const bool has_ceiling = ceiling_seconds > 0;
  return fmt::format(
      kGpuRow, run.rung.number, run.rung.name, fmt::format("{:.4f}", seconds * 1e3),
      fmt::format("{:.1f}", work / seconds / scale),
      has_ceiling ? fmt::format("{:.1f}", ceiling_work / ceiling_seconds / scale) : "-",
      has_ceiling ? fmt::format("{:.1f}%", 100 * of_ceiling(run, work, ceiling_work)) : "-",
      name_of(run.status));
}

std::string format_notes(std::span<const RungRun> runs) {
  std::string text = "\n";
  for (const RungRun& run : runs) {
    text += fmt::format("{:>2}  {:<22} {}\n", run.rung.number, run.rung.name, run.rung.idea);
  }
  for (const RungRun& run : runs) {
    if (run.status == Status::kNotWritten) {
      text += fmt::format("\n{:02} {}: {}\n", run.rung.number, run.rung.name, run.message);
    } else if (run.status != Status::kRight) {
      text += fmt::format("\n{:02} {} is {}: {}\n", run.rung.number, run.rung.name,
                          name_of(run.status), run.message);
    }
  }
  return text;
}

std::string format_counters(const RungRun& run) {
  if (!has_outcome(run)) {
    return "";
  }
  std::string text = fmt::format("\n{:02} {}:", run.rung.number, run.rung.name);
  for (const simt::Launched& launched : run.outcome.report.launches) {
    text += fmt::format(" {} <<<{}, {}>>>", launched.kernel, to_text(launched.grid),
                        to_text(launched.block));
  }
  text += fmt::format("\n{}\n", simt::to_table(run.outcome.report));
  for (const auto& [name, value] : run.outcome.report.metrics()) {
    text += fmt::format("{:<74} {:>16.12g}\n", name, value);
  }
  return text;
}

std::string ncu_command(const std::string& kernel, const std::string& sizes) {
  std::vector<std::string> names;
  for (const auto& metric : Report{}.metrics()) {
    names.push_back(metric.first);
  }
  return fmt::format(
      "ncu --metrics {} build/release/bin/09_kernels --gpu --repetitions 0 --kernel {}{}",
      fmt::join(names, ","), kernel, sizes.empty() ? "" : fmt::format(" --size {}", sizes));
}

}  // namespace ultra::ladders
