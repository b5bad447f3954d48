#include "common/train/elsewhere/elsewhere.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/atomic_file.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/base/numeric.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"
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

constexpr std::size_t kMostLines = 1000;

/// A word that holds a list, or stands in one line of the sweep for all.
struct Place {
  std::size_t word;                   // index
  std::string before;                 // "--tp=", or nothing
  std::vector<std::string> variants;  // of what stands behind
};

std::vector<std::string> variants_of(std::string_view value) {
  std::vector<std::string> variants;
  for (const std::string_view part : split(value, ',')) variants.emplace_back(part);
  return variants;
}

OnMemory fullest(const OnReport& report) {
  return *std::ranges::max_element(report.memory, {},
                                   [](const OnMemory& rank) { return rank.at_peak.total(); });
}

/// What one line of a sweep gave.
struct SweepRow {
  std::vector<std::string> values;  // of the sweep's flags
  OnReport report;                  // meaningless with an error
  std::string error;                // why there is no such training; else empty
};

/// The rows as a table: memory of the fullest rank, time, part of the peak, waits.
std::string sweep_to_text(const Sweep& sweep, const std::vector<SweepRow>& rows) {
  std::vector<std::size_t> widths;
  for (std::size_t f = 0; f < sweep.flags.size(); ++f) {
    std::size_t width = sweep.flags[f].size();
    for (const SweepRow& row : rows) width = std::max(width, row.values[f].size());
    widths.push_back(width);
  }
  std::string text;
  for (std::size_t f = 0; f < sweep.flags.size(); ++f) {
    text += fmt::format("{:>{}}  ", sweep.flags[f], widths[f]);
  }
  text += fmt::format("{:>7}  {:>6}  {:>10}  {:>12}  {:>7}  {:>9}  {:>9}\n", "GB", "of", "a step",
                      "tokens/s", "of peak", "exchanges", "stages");
  for (const SweepRow& row : rows) {
    for (std::size_t f = 0; f < sweep.flags.size(); ++f) {
      text += fmt::format("{:>{}}  ", row.values[f], widths[f]);
    }
    if (!row.error.empty()) {
      text += row.error + "\n";
      continue;
    }
    const OnReport& report = row.report;
    const auto share = [&](double seconds) {
      return fmt::format("{:.1f} %", 100 * seconds / report.seconds);
    };
    text += fmt::format("{:>7.1f}  {:>6.1f}  {:>10}  {:>12.0f}  {:>7.2f}  {:>9}  {:>9}\n",
                        static_cast<double>(fullest(report).at_peak.total()) / 1e9,
                        report.memory_bytes / 1e9, format_seconds(report.seconds),
                        static_cast<double>(report.tokens) / report.seconds, report.part_of_peak(),
                        share(report.exchanges_waited()), share(report.stage));
  }
  return text + "\nGB of the fullest rank; exchanges and stages: waited for them, of a step.\n";
}

/// The rows as JSON: a list of reports, each with its flags.
std::string sweep_to_json(const Sweep& sweep, const std::vector<SweepRow>& rows) {
  Json list = Json::array();
  for (const SweepRow& row : rows) {
    Json flags = Json::object();
    for (std::size_t f = 0; f < sweep.flags.size(); ++f) flags[sweep.flags[f]] = row.values[f];
    Json entry = row.error.empty() ? to_json(row.report) : Json{{"error", row.error}};
    entry["flags"] = std::move(flags);
    list.push_back(std::move(entry));
  }
  return list.dump(2) + "\n";
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

Sweep sweep_of(const std::vector<std::string>& words, const ReadsValue& reads) {
  Sweep sweep;
  std::vector<Place> places;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) continue;
    const std::size_t equals = words[i].find('=');
    const bool is_one_word = equals != std::string::npos;
    if (!is_one_word && (i + 1 == words.size() || words[i + 1].starts_with("--"))) continue;
    const std::string flag = words[i].substr(0, equals);
    const std::string value = is_one_word ? words[i].substr(equals + 1) : words[i + 1];
    if (flag == kOnFlag || value.find(',') == std::string::npos || reads(flag, value)) continue;
    sweep.flags.push_back(flag);
    places.push_back({.word = is_one_word ? i : i + 1,
                      .before = is_one_word ? flag + "=" : "",
                      .variants = variants_of(value)});
  }
  std::size_t count = 1;
  for (const Place& place : places) {
    count *= place.variants.size();
    if (count <= kMostLines) continue;
    throw ConfigError(fmt::format("{} have more than {} combinations of values. Give fewer.",
                                  fmt::join(sweep.flags, ", "), kMostLines));
  }
  for (std::size_t line = 0; line < count; ++line) {
    std::vector<std::string>& own = sweep.lines.emplace_back(words);
    std::vector<std::string>& values = sweep.values.emplace_back(places.size());
    std::size_t rest = line;
    for (std::size_t p = places.size(); p-- > 0;) {
      const Place& place = places[p];
      values[p] = place.variants[rest % place.variants.size()];
      rest /= place.variants.size();
      own[place.word] = place.before + values[p];
    }
  }
  return sweep;
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
