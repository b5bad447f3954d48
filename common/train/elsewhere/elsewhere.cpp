#include "common/train/elsewhere/elsewhere.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/atomic_file.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/train/elsewhere/on_report.hpp"
#include "common/train/elsewhere/record_step.hpp"

namespace ultra::train {
namespace {

constexpr nn::Precision mixed_precision() {
  nn::Precision types;
  types.parameters = DType::kBF16;
  types.compute = DType::kBF16;
  return types;
}

/// Ranks are GPUs of the machine, all of them where its nodes are given.
void ask_for_gpus(CommOptions& comm, const Machine& machine) {
  comm.elsewhere = true;
  comm.launched.reset();
  if (!machine.nodes) return;
  const std::size_t gpus =
      *machine.nodes * checked_cast<std::size_t>(machine.cluster.gpus_per_node);
  if (comm.ranks && *comm.ranks != gpus) {
    throw ConfigError(fmt::format(
        "--on: {} nodes of {} have {} GPUs, but --ranks is {}. Leave one of the two out.",
        *machine.nodes, machine.cluster.name, gpus, *comm.ranks));
  }
  comm.ranks = gpus;
}

/// What of every trainer's flags cannot be recorded.
std::vector<Conflict> conflicts_of_every_trainer(const Setup& setup) {
  const TrainOptions& train = setup.train;
  return {
      not_recorded("--init", "no weight is read: give the model's sizes, or --model.",
                   !train.init.empty()),
      not_recorded("--val-data", "nothing is validated: leave it out.", !train.val_data.empty()),
      not_recorded("--device", "the machine's GPUs are the devices: leave it out.",
                   train.device != DeviceKind::kCpu),
      not_recorded("--link",
                   "the machine says how fast its links are: --on NAME,inter.bandwidth=N.",
                   !setup.comm.link.empty()),
  };
}

}  // namespace

void move_elsewhere(Setup& setup) {
  reject_conflicts(conflicts_of_every_trainer(setup));
  ask_for_gpus(setup.comm, *setup.on.machine);
  if (!setup.comm.collectives_given) setup.comm.collectives = Collectives::kNative;
  setup.train.is_recorded = true;
  if (!setup.train.dtype_given) setup.train.precision = mixed_precision();
}

std::vector<Conflict> conflicts_with_recording(const Setup& setup) {
  std::vector<Conflict> all = conflicts_of_every_trainer(setup);
  for (const auto& technique : setup.techniques) {
    for (Conflict& row : technique->conflicts_with_recording(setup)) all.push_back(std::move(row));
  }
  return all;
}

std::string report_on_machine(const Setup& setup) {
  std::optional<AtomicFile> trace;
  if (!setup.train.trace.empty()) trace.emplace(setup.train.trace, "trace file (--trace)");
  const std::vector<RecordedRank> ranks = record_ranks(setup, ranks_that_differ(setup));
  // Spans name what is on the ranks' tapes.
  const OnReport report = price(setup, setup.on.machine->cluster, ranks,
                                trace ? replay::Spans::kKept : replay::Spans::kDropped);
  if (trace) {
    trace->write(timeline_of(report));
    trace->commit();
  }
  return setup.on.json ? to_json(report).dump(2) + "\n" : to_text(report);
}

std::string report_sweep(const Sweep& sweep, const ReadLine& read) {
  std::vector<SweepRow> rows;
  bool as_json = false;
  for (std::size_t line = 0; line < sweep.lines.size(); ++line) {
    SweepRow& row = rows.emplace_back();
    row.values = sweep.values[line];
    try {
      const Setup setup = read(sweep.lines[line]);
      as_json = setup.on.json;
      if (!setup.train.trace.empty()) {
        throw ConfigError(fmt::format("--trace has one timeline, and {} several values. Give one.",
                                      sweep.flags.front()));
      }
      row.report = price(setup, setup.on.machine->cluster,
                         record_ranks(setup, ranks_that_differ(setup)), replay::Spans::kDropped);
    } catch (const ConfigError& error) {
      row.error = error.what();
    }
  }
  const bool all_refused =
      std::ranges::all_of(rows, [](const SweepRow& row) { return !row.error.empty(); });
  if (all_refused) throw ConfigError(rows.front().error);
  return as_json ? sweep_to_json(sweep, rows) : sweep_to_text(sweep, rows);
}

}  // namespace ultra::train
