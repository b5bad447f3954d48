#include "chapters/07_pipeline_parallel/table/schedule_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/search/search.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {
namespace {

/// Parts times micro-batches: a few hundred megabytes.
constexpr std::size_t kMostToSimulate = 1U << 18U;

void expect_small(const TableQuestion& question, std::size_t chunks) {
  // Neither number is above kMostToSimulate, see PpTableOptions: the product cannot overflow.
  const std::size_t size = question.stages * question.micro_batches * chunks;
  if (size <= kMostToSimulate) return;
  throw ConfigError(fmt::format(
      "{} stages, {} micro-batches and {} chunks per rank are {} forward passes, but the simulator "
      "takes at most {}. Choose fewer.",
      question.stages, question.micro_batches, chunks, size, kMostToSimulate));
}

double most_bytes(const TableQuestion& question) {
  if (question.most_activations == 0) return std::numeric_limits<double>::infinity();
  return question.most_activations * question.costs.stage.saved_bytes;
}

TableRow row_of(const TableQuestion& question, PipelineSchedule schedule) {
  const CostModel costs =
      question.measured ? *question.measured : question.costs.on(schedule.placement);
  if (costs.parts.size() != schedule.placement.parts()) {
    throw ConfigError(fmt::format(
        "--pp-table-costs has the times of {} parts, but schedule {} on {} stages has {}. Measure "
        "a run of as many.",
        costs.parts.size(), schedule.name, question.stages, schedule.placement.parts()));
  }
  SimulatedStep step = simulate(schedule, costs);
  TableRow row{.schedule = std::move(schedule), .step = std::move(step)};
  if (!fits(row.step, most_bytes(question))) row.note = "too many activations";
  return row;
}

TableRow searched_row(const TableQuestion& question) {
  if (question.measured) {
    throw ConfigError(
        "the search cuts the model in several ways: it needs the times of a stage "
        "(--pp-table-forward, --pp-table-head, ...), not --pp-table-costs.");
  }
  FoundSchedule found = search_schedule({.costs = question.costs,
                                         .stages = question.stages,
                                         .micro_batches = question.micro_batches,
                                         .most_bytes = most_bytes(question)});
  return {.schedule = std::move(found.schedule),
          .step = std::move(found.step),
          .note = fmt::format("{}{}", found.from,
                              found.is_optimal ? ", no schedule of one chunk is faster" : "")};
}

[[noreturn]] void refuse_without_rows(const TableQuestion& question) {
  if (question.measured) {
    throw ConfigError(fmt::format(
        "--pp-table-costs has the times of {} parts, and none of the schedules cuts the model for "
        "{} stages into so many. Give --pp-table the stages of the run that was measured.",
        question.measured->parts.size(), question.stages));
  }
  throw ConfigError(
      fmt::format("none of the schedules is one of {} micro-batches on {} stages. Give "
                  "--pp-table-micro-batches a multiple of {}, or name other schedules.",
                  question.micro_batches, question.stages, question.stages));
}

}  // namespace

double TableRow::peak() const {
  double most = 0;
  for (const SimulatedRank& rank : step.ranks) most = std::max(most, rank.peak_bytes);
  return most;
}

std::vector<TableRow> table_rows(const TableQuestion& question) {
  std::vector<TableRow> rows;
  for (const ScheduleChoice& choice : question.choices) {
    const bool is_possible = choice.takes(question.micro_batches, question.stages);
    const bool is_measured =
        !question.measured || question.measured->parts.size() == question.stages * choice.chunks();
    // Of several schedules those that are possible; one alone says why it is not.
    if (!(is_possible && is_measured) && question.choices.size() > 1) continue;
    expect_small(question, choice.chunks());
    rows.push_back(
        row_of(question, make_schedule(choice, question.stages, question.micro_batches)));
  }
  if (question.own) rows.push_back(row_of(question, *question.own));
  if (question.searches) rows.push_back(searched_row(question));
  if (rows.empty()) refuse_without_rows(question);
  return rows;
}

std::string table_heading() {
  return fmt::format("  {:>3}{:>6}  {:<16}{:>11}{:>9}{:>9}{:>9}{:>13}{:>10}\n", "p", "m",
                     "schedule", "seconds", "r", "f", "r, span", "activations", "messages");
}

std::string format_rows(const TableQuestion& question, const std::vector<TableRow>& rows) {
  std::string text;
  for (const TableRow& row : rows) {
    const SimulatedStep& step = row.step;
    text += fmt::format("  {:>3}{:>6}  {:<16}{:>11.6g}{:>9.4f}{:>9.4f}{:>9.4f}{:>13.4g}{:>10}{}\n",
                        question.stages, question.micro_batches, row.schedule.name, step.seconds(),
                        step.bubble_over_ideal(), step.bubble_over_total(),
                        step.longest_span() / step.ideal() - 1,
                        row.peak() / question.costs.stage.saved_bytes, step.messages.size(),
                        row.note.empty() ? "" : "  " + row.note);
  }
  return text;
}

}  // namespace ultra::pipeline_parallel
