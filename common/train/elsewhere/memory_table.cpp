#include "common/train/elsewhere/memory_table.hpp"

#include <fmt/format.h>

#include <array>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/units.hpp"
#include "common/train/elsewhere/record_step.hpp"

namespace ultra::train {
namespace {

/// What a technique allocates and frees where its program says so.
constexpr std::array kCompared = {MemoryCategory::kParameters, MemoryCategory::kGradients,
                                  MemoryCategory::kOptimizer, MemoryCategory::kActivations};

/// The flag of a training that keeps its step from being recorded beside it.
std::optional<std::string> unrecorded_flag(const Setup& setup) {
  if (!setup.train.init.empty()) return "--init";
  for (const auto& technique : setup.techniques) {
    for (const Conflict& row : technique->conflicts_with_recording(setup)) {
      if (row.broken) return row.first;
    }
    // A record makes no files, and reads none.
    for (const FileFlag& file : technique->files()) return file.flag;
  }
  return {};
}

std::vector<RecordedRank> recorded_ranks(const Setup& setup, std::size_t ranks) {
  std::vector<int> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  return record_ranks(setup, all);
}

/// Bytes of one step of several, and how far those of all steps are from recorded ones.
std::string beside(std::size_t measured, std::size_t recorded, std::size_t steps = 1) {
  const std::string bytes = format_bytes(measured / steps);
  if (recorded == 0 && measured > 0) return bytes + " unrecorded";
  return bytes + " " + format_difference(measured, recorded * steps, 1);
}

std::string memory_row(const RankSummary& rank, const RecordedRank* recorded,
                       const std::string& place) {
  std::string row = fmt::format("  {:>4}", rank.rank);
  for (const MemoryCategory category : kCompared) {
    const std::size_t measured = rank.memory.peak(category).bytes;
    row += fmt::format("{:>16}", recorded ? beside(measured, recorded->memory.peak(category).bytes)
                                          : format_bytes(measured));
  }
  for (const MemoryCategory category : {MemoryCategory::kCommunication, MemoryCategory::kOther}) {
    row += fmt::format("{:>{}}", format_bytes(rank.memory.peak(category).bytes),
                       category == MemoryCategory::kCommunication ? 15 : 10);
  }
  const MemoryPeak& total = rank.memory.peak_total();
  row += fmt::format("{:>10}   {}", format_bytes(total.bytes), total.phase);
  return row + (place.empty() ? "\n" : fmt::format(" ({})\n", place));
}

/// How far rank 0 is from an exercise's formulas.
std::string formula_row(const RankSummary& rank, const Formula& formula) {
  std::string row = fmt::format("  {:>4}", formula.exercise);
  for (const MemoryCategory category : kCompared) {
    const auto& bytes = formula[category];
    row += fmt::format("{:>16}", bytes ? beside(rank.memory.peak(category).bytes, *bytes) : "-");
  }
  return row + "   formulas of that exercise, and how far rank 0 is from them\n";
}

/// What all ranks sent in a step, kind by kind.
std::string sent_line(const TrainResult& result, const std::vector<RecordedRank>& recorded) {
  const std::size_t steps = result.steps_made();
  const auto text = [&](std::size_t measured, std::size_t of_step) {
    return recorded.empty() ? format_bytes(measured / steps) : beside(measured, of_step, steps);
  };
  std::size_t all = 0;
  std::size_t all_recorded = 0;
  std::string line;
  for (const OpKind kind : kDataOpKinds) {
    std::size_t measured = 0;
    std::size_t of_step = 0;
    for (const RankSummary& rank : result.ranks) measured += rank.communication[kind].sent_bytes;
    for (const RecordedRank& rank : recorded) of_step += rank.sent[kind].sent_bytes;
    all += measured;
    all_recorded += of_step;
    if (measured + of_step == 0) continue;
    line += fmt::format(" {} {},", to_string(kind), text(measured, of_step));
  }
  if (all + all_recorded == 0) return {};
  return fmt::format("\n  All ranks sent in a step:{} together {}.\n", line,
                     text(all, all_recorded));
}

}  // namespace

std::string format_difference(std::size_t measured, std::size_t predicted, int decimals) {
  if (measured == predicted) return "exact";
  const double from = static_cast<double>(predicted);
  return fmt::format("{:+.{}f}%", 100.0 * (static_cast<double>(measured) - from) / from, decimals);
}

std::string format_memory_table(const Setup& setup, const TrainResult& result) {
  const std::optional<std::string> flag = unrecorded_flag(setup);
  std::vector<RecordedRank> recorded;
  if (!flag) recorded = recorded_ranks(setup, result.ranks.size());
  std::string table = fmt::format(
      "\nWhere the memory went: measured at its highest{}\n\n"
      "  {:>4}{:>16}{:>16}{:>16}{:>16}{:>15}{:>10}{:>10}   {}\n",
      flag ? fmt::format(" (with {}, no step is recorded beside it)", *flag)
           : ", and how far from a recorded step of the same rank",
      "rank", "parameters", "gradients", "optimizer", "activations", "communication", "other",
      "together", "highest in");
  for (const int rank : ranks_that_differ(setup)) {
    const auto number = static_cast<std::size_t>(rank);
    table += memory_row(result.ranks.at(number), flag ? nullptr : &recorded.at(number),
                        place_of(setup, rank));
  }
  for (const Formula& formula : setup.formulas()) {
    table += formula_row(result.ranks.front(), formula);
  }
  return table + sent_line(result, recorded);
}

}  // namespace ultra::train
