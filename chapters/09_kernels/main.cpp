/// 09_kernels: lists the ladders of kernels, and runs their rungs in the emulator or on a GPU.

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <vector>

#include "chapters/09_kernels/kernels_options.hpp"
#include "chapters/09_kernels/ladders.hpp"
#include "chapters/09_kernels/report/ladder_table.hpp"
#include "chapters/09_kernels/report/rung_json.hpp"
#include "common/base/atomic_file.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/cli/program.hpp"
#include "common/train/options/file_flags.hpp"
#include "kernels/device/device_info.hpp"

namespace ultra::ladders {
namespace {

// A ladder's rungs, run one after the other; each is shown when it is done.
class Runs {
 public:
  Runs(KernelsRequest request, std::vector<kernels::DeviceInfo> devices)
      : request_(std::move(request)),
        ladder_(*request_.selection.ladder),
        cost_(ladder_.cost(request_.run.sizes, request_.run.seed)),
        devices_(std::move(devices)) {
    if (on_gpu() && request_.run.repetitions > 0) {
      ceiling_ = make_ceiling(ladder_.info(), request_.run.sizes, cost_, why_no_ceiling_);
    }
    if (ceiling_) {
      ceiling_->launch();  // the first launch also loads the kernel
      request_.run.beside = [this] { ceiling_->launch(); };
    }
  }
  // `beside` refers to this object.
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

  void run(std::optional<AtomicFile>& metrics) {
    show(format_problem(ladder_, request_.run) + head());
    for (const int rung : request_.selection.rungs) {
      runs_.push_back(run_next(rung));
      show(row(runs_.back()));
      if (metrics) {
        metrics->write(to_json(ladder_, request_.run, runs_.back(), ceiling_.get()).dump() + "\n");
      }
    }
    show(format_notes(runs_));
  }

  void show_counters() const {
    for (const RungRun& run : runs_) {
      show(format_counters(run));
    }
  }

  void expect_success() const { ladders::expect_success(ladder_.info(), runs_); }

 private:
  static void show(const std::string& text) {
    fmt::print("{}", text);
    std::fflush(stdout);
  }
  [[nodiscard]] RungRun run_next(int rung) const {
    const bool is_lost = !runs_.empty() && runs_.back().has_ended_gpu;
    return is_lost ? not_run_after(runs_.back(), ladder_, rung)
                   : run_rung(ladder_, rung, request_.run);
  }
  [[nodiscard]] bool on_gpu() const { return request_.run.executor == simt::Executor::kGpu; }
  [[nodiscard]] std::string head() const {
    return on_gpu() ? gpu_head(ladder_.info().limit, devices_.front().name,
                               request_.run.repetitions, ceiling_.get(), why_no_ceiling_)
                    : emulated_head();
  }
  [[nodiscard]] std::string row(const RungRun& run) const {
    return on_gpu() ? gpu_row(run, ladder_.info().limit, cost_, ceiling_ ? ceiling_->work() : 0.0)
                    : emulated_row(run, cost_);
  }

  KernelsRequest request_;
  const Ladder& ladder_;
  Cost cost_;
  std::vector<kernels::DeviceInfo> devices_;
  std::unique_ptr<Ceiling> ceiling_;
  std::string why_no_ceiling_ = "nothing was timed (--repetitions 0)";
  std::vector<RungRun> runs_;
};

/// Prints what the flags ask for: the list, or the table of a ladder that it runs.
/// @throws ConfigError for flags that cannot work, FileError for --metrics, RungFailed for a rung
/// that is wrong, NotWritten for one that is a stub; the latter two after all rungs were run.
void run_ladder_program(const KernelsOptions& options) {
  const std::vector<std::unique_ptr<Ladder>> ladders = all_ladders();
  if (options.list) {
    if (!options.metrics.empty()) {
      const train::FileFlag metrics{"--metrics", options.metrics, train::FileUse::kWritten};
      train::expect_nothing_to_write({&metrics, 1}, "--list");
    }
    fmt::print("{}", format_list(ladders));
    return;
  }
  std::vector<kernels::DeviceInfo> devices = kernels::list_devices();
  KernelsRequest request = options.request(ladders, !devices.empty());
  std::optional<AtomicFile> metrics;
  if (!options.metrics.empty()) {
    metrics.emplace(options.metrics, "metrics file (--metrics)");
  }
  Runs runs(std::move(request), std::move(devices));
  runs.run(metrics);
  if (options.counters) {
    runs.show_counters();
  }
  if (metrics) {
    metrics->commit();
  }
  runs.expect_success();
}

}  // namespace
}  // namespace ultra::ladders

int main(int argc, char** argv) {
  using namespace ultra;
  ladders::KernelsOptions options;
  return train::run_program(
      {.name = "09_kernels",
       .description =
           "Runs ladders of kernels, from naive to the limit, in the emulator or on a GPU.",
       .add_flags = [&](CLI::App& app) { options.add_to(app); },
       .body =
           [&] {
             if (launched_rank() == 0) {  // kernels need no ranks
               ladders::run_ladder_program(options);
             }
           }},
      argc, argv);
}
